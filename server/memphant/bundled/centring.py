"""Take a text's language out of its vector, and most of what all vectors share.

The model groups texts by language first and by meaning second: in a store of two languages a
question hardly finds a memory in the other one. Each script has an offset, the mean vector of
its ordinary sentences less the mean over languages, so that all languages get one centre, plus
three quarters of that centre, so that cosines spread. Queries and passages have offsets of
their own, but give up the same part of the centre: what makes a question a question is kept, as
it helps to find the answer. Made by bench/centring/fit.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from memphant.embedding import Kind

OFFSETS = Path(__file__).with_name("offsets.npy")
KINDS = ("query", "passage")
# Letters of each script, and what one of them counts: about five Latin letters make a word, but
# two Chinese characters do.
SCRIPTS = {
    "latin": ("A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff", 1.0),
    "han": ("\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f", 2.5),
    "kana": ("\u3041-\u3096\u30a1-\u30fa", 2.5),
    "hangul": ("\u1100-\u11ff\uac00-\ud7a3", 2.5),
    "cyrillic": ("\u0400-\u052f", 1.0),
    "thai": ("\u0e01-\u0e4e", 1.0),
}
_HAN, _KANA = list(SCRIPTS).index("han"), list(SCRIPTS).index("kana")


class Centring:
    """Offsets by kind and script, float32 [2, 6, dimensions]."""

    def __init__(self, offsets: NDArray[np.float32]) -> None:
        self._offsets = offsets
        self._letters = [re.compile(f"[{letters}]") for letters, _ in SCRIPTS.values()]
        self._weights = np.array([weight for _, weight in SCRIPTS.values()], np.float32)

    @classmethod
    def load(cls) -> Centring:
        return cls(np.load(OFFSETS, allow_pickle=False))

    def shares(self, text: str) -> NDArray[np.float32]:
        """Share of each script in a text, in the order of SCRIPTS; they add up to one.

        Chinese characters are Japanese if kana are among them, more than one in ten; a Chinese
        text may well quote a name in kana. A text without a known letter counts as a
        little of each script.
        """
        counts = np.array([len(script.findall(text)) for script in self._letters], np.float32)
        if 10 * counts[_KANA] > counts[_HAN]:
            counts[_KANA] += counts[_HAN]
            counts[_HAN] = 0
        counts *= self._weights
        total = counts.sum()
        if not total:
            return np.full(len(counts), 1 / len(counts), np.float32)
        return np.asarray(counts / total, np.float32)

    def apply(
        self, vector: NDArray[np.float32], shares: NDArray[np.float32], kind: Kind
    ) -> NDArray[np.float32]:
        """A vector of length 1, centred and brought to length 1 again."""
        moved = vector - shares @ self._offsets[KINDS.index(kind)]
        return np.asarray(moved / np.linalg.norm(moved), np.float32)
