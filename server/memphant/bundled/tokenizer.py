"""Text to token ids, as sentencepiece's unigram model does it.

Our own thirty lines and not the package sentencepiece: they load in a third of the time and a
little over half of the memory (no model has to be built first), and gave the same ids wherever
the two were compared (tests/server/test_bundled_model.py compares them again).
"""

from __future__ import annotations

import re
import unicodedata

from memphant.bundled.weights import Vocabulary

# Longer words are rare, seldom repeated, and would make the cache large.
CACHED_WORD = 16
CACHED_WORDS = 50_000

_UNREADABLE = re.compile("[\\s\x00\ud800-\udfff]+")


def cleaned(text: str, limit: int) -> str:
    """NFKC without U+0000 and lone surrogates, white space folded, at most `limit` characters.

    Empty if nothing is left. The cut is made before NFKC too, which may lengthen a text 18 times.
    """
    text = _UNREADABLE.sub(" ", text).strip()[:limit]
    return _UNREADABLE.sub(" ", unicodedata.normalize("NFKC", text)).strip()[:limit]


class Tokenizer:
    """Most probable segmentation of each word, remembered for short words. Thread-safe."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        v = self._vocabulary = vocabulary
        # "<s>" or "<mask>" typed by a user is plain text, never a mark of the model
        marks = {v.bos, v.eos, v.pad, v.unk, len(v.pieces) - 1}
        self._ids = {piece: i for i, piece in enumerate(v.pieces) if i not in marks}
        self._longest = max(map(len, v.pieces))
        self._unknown_score = min(v.scores) - 10
        self._cache: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        """Token ids of a cleaned text, without marks of beginning and end."""
        found: list[int] = []
        for word in text.translate(self._vocabulary.normalised).split(" "):
            if not word:
                continue
            tokens = self._cache.get(word)
            if tokens is None:
                tokens = self._word("▁" + word)
                if len(word) <= CACHED_WORD and len(self._cache) < CACHED_WORDS:
                    self._cache[word] = tokens
            found += tokens
        return found

    def _word(self, word: str) -> list[int]:
        """Viterbi over the pieces; a character of no piece is unknown, a run of them is one."""
        ids, scores, unknown = self._ids, self._vocabulary.scores, self._vocabulary.unk
        length = len(word)
        best = [0.0] + [float("-inf")] * length
        came: list[tuple[int, int]] = [(0, unknown)] * (length + 1)
        for start in range(length):
            so_far = best[start]
            for end in range(start + 1, min(length, start + self._longest) + 1):
                piece = ids.get(word[start:end])
                if piece is not None and so_far + scores[piece] > best[end]:
                    best[end], came[end] = so_far + scores[piece], (start, piece)
            if so_far + self._unknown_score > best[start + 1]:
                best[start + 1], came[start + 1] = so_far + self._unknown_score, (start, unknown)
        tokens: list[int] = []
        at = length
        while at:
            at, piece = came[at]
            if piece != unknown or not tokens or tokens[-1] != unknown:
                tokens.append(piece)
        return tokens[::-1]
