"""How good a ranking is, and how long a call took."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

Figures = dict[str, float]


def figures(rankings: Sequence[Sequence[str]], relevant: Sequence[Collection[str]]) -> Figures:
    """recall@k: mean over questions of the share of the relevant ids among the first k.

    mrr: mean of 1 / rank of the first relevant one, 0 if it is not among those given.
    """
    recalls: dict[int, list[float]] = {5: [], 10: []}
    reciprocals = []
    for found, right in zip(rankings, relevant, strict=True):
        for k, shares in recalls.items():
            shares.append(len(set(right) & set(found[:k])) / len(right))
        ranks = [rank for rank, id_ in enumerate(found, 1) if id_ in right]
        reciprocals.append(1 / ranks[0] if ranks else 0.0)
    return {
        **{f"recall@{k}": round(float(np.mean(shares)), 4) for k, shares in recalls.items()},
        "mrr": round(float(np.mean(reciprocals)), 4),
    }


def percentile(seconds: Sequence[float], share: int) -> float:
    """In milliseconds."""
    return round(1000 * float(np.percentile(seconds, share)), 3)
