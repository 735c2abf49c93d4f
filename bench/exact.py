"""Recall against comparing every vector, outside the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bench.tenants import Population
from numpy.typing import NDArray

SHOWN = 10
SAME = 1e-5  # cosines nearer than this are equal
CHUNK = 50_000

Unit = NDArray[np.float32]


class Exact:
    """The ten nearest of one tenant, and of all rows together. Equals count as each other."""

    def __init__(self, population: Population) -> None:
        self._population = population
        self._known: dict[int, tuple[Unit, dict[int, int]]] = {}

    def recall(self, tenant: int, question: int, places: Sequence[int]) -> float:
        """The share of the tenant's ten nearest that is among the places."""
        if tenant not in self._known:
            rows = self._population.rows_of(tenant)
            numbers = {place: n for n, place in enumerate(self._population.places[rows].tolist())}
            self._known[tenant] = _unit(self._population.vectors[rows]), numbers
        vectors, numbers = self._known[tenant]
        cosines = vectors @ _unit(self._population.question_vectors[question])
        wanted = min(SHOWN, len(cosines))
        least = np.partition(cosines, -wanted)[-wanted] - SAME
        found = sum(bool(cosines[numbers[place]] >= least) for place in set(places))
        return found / wanted

    def recall_of_all(self, questions: Sequence[int], rows: Sequence[Sequence[int]]) -> float:
        """The mean share of the ten nearest of all tenants that is among the rows found."""
        vectors = self._population.vectors
        asked = _unit(self._population.question_vectors[list(questions)])
        best = np.full((len(asked), SHOWN), -2, np.float32)
        for start in range(0, len(vectors), CHUNK):
            cosines = asked @ _unit(vectors[start : start + CHUNK]).T
            best = np.sort(np.hstack([best, cosines]), axis=1)[:, -SHOWN:]
        shares = [
            np.mean(_unit(vectors[list(found)]) @ question >= least - SAME) * len(found) / SHOWN
            for question, least, found in zip(asked, best[:, 0], rows, strict=True)
        ]
        return float(np.mean(shares))


def _unit(vectors: NDArray[Any]) -> Unit:
    single = vectors.astype(np.float32)
    lengths = np.linalg.norm(single, axis=-1, keepdims=True)
    made: Unit = single / lengths
    return made
