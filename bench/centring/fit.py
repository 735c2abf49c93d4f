"""Fit the offsets that take the language out of a vector: python bench/centring/fit.py [FILE]

One text file per script, all of our own writing; line n is the same sentence in each, of many
kinds: facts, chat, notes, questions, wishes, technology, encyclopaedia. Parallel lines make the
difference between two means a matter of language alone. Change the number in the bundled
model's recorded name (memphant.bundled.embedder) whenever the result changes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memphant.bundled import centring
from memphant.bundled.model import Model
from memphant.embedding import Kind

STRENGTH = 0.75  # part of the common centre that is taken away; flat between 0.7 and 0.8
CENTRE = ("latin", "han")  # the languages with all the sentences; their mean is the centre


def embedded(model: Model, sentences: list[str], kind: Kind) -> NDArray[np.float32]:
    """Vectors before centring."""
    vectors = []
    for sentence in sentences:
        pooled = model.run(model.prepare(sentence, kind), 0)
        vectors.append(pooled / np.linalg.norm(pooled))
    return np.stack(vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=centring.OFFSETS)
    path: Path = parser.parse_args().file
    no_offsets = np.zeros((2, len(centring.SCRIPTS), 384), np.float32)
    model = Model(centring.Centring(no_offsets))
    folder = Path(__file__).parent
    sentences = {s: (folder / f"{s}.txt").read_text().splitlines() for s in centring.SCRIPTS}
    vectors: dict[tuple[Kind, str], NDArray[np.float32]] = {}
    kinds: tuple[Kind, Kind] = ("query", "passage")
    for kind in kinds:
        for script, lines in sentences.items():
            vectors[kind, script] = embedded(model, lines, kind)
    common = STRENGTH * np.mean([vectors["passage", script].mean(axis=0) for script in CENTRE], 0)
    offsets = np.empty((len(kinds), len(sentences), len(common)), np.float32)
    for kind in kinds:
        for at, script in enumerate(sentences):
            own = vectors[kind, script]
            same_lines = [vectors[kind, other][: len(own)].mean(axis=0) for other in CENTRE]
            language = own.mean(axis=0) - np.mean(same_lines, axis=0)
            offsets[centring.KINDS.index(kind), at] = language + common
    np.save(path, offsets, allow_pickle=False)
    print(f"{path.name}: {offsets.shape}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
