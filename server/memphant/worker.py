"""Background work of one server process: missing vectors, uses to count, what is to be purged."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from memphant.embedding import Embedder, EmbeddingError
from memphant.errors import MemphantError
from memphant.logs import timed
from memphant.store import Claimed, Principal, Store

CLAIM_ROWS = 16
IDLE_SECONDS = 2.0
FLUSH_SECONDS = 5.0
PURGE_SECONDS = 3600.0
LONGEST_PAUSE_SECONDS = 300.0

_log = logging.getLogger(__name__)


class Worker:
    """Any number of processes may run one: claims skip what another holds."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._wake = asyncio.Event()
        self._uses: Counter[tuple[str, UUID]] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts the loops."""
        self._tasks = [
            asyncio.create_task(self._every("embed", self._embed_all, IDLE_SECONDS, self._wake)),
            asyncio.create_task(self._every("flush", self.flush, FLUSH_SECONDS)),
            asyncio.create_task(self._every("purge", self._purge, PURGE_SECONDS)),
        ]

    async def stop(self) -> None:
        """Ends the loops and writes the uses that are still in memory."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(MemphantError):
            await self.flush()

    def wake(self) -> None:
        """Something was saved without a vector."""
        self._wake.set()

    def used(self, who: Principal, memories: list[dict[str, Any]]) -> None:
        """Counts what a search returned; reads never write themselves."""
        self._uses.update((who.user_id, UUID(memory["id"])) for memory in memories)

    async def flush(self) -> None:
        """Writes the collected uses in one statement."""
        uses, self._uses = self._uses, Counter()
        if not uses:
            return
        try:
            await self._store.record_uses(
                [
                    {"user_id": user_id, "memory_id": str(memory_id), "uses": count}
                    for (user_id, memory_id), count in uses.items()
                ]
            )
        except MemphantError:
            self._uses.update(uses)
            raise

    async def _every(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        seconds: float,
        wake: asyncio.Event | None = None,
    ) -> None:
        wake = wake or asyncio.Event()
        while True:
            try:
                await work()
            except MemphantError as error:
                _log.warning("background work %s: %s", name, error)
            except Exception:
                _log.exception("background work %s failed", name)
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), seconds)
            wake.clear()

    async def _purge(self) -> None:
        await self._store.purge()

    async def _embed_all(self) -> None:
        while claimed := await self._store.claim_unembedded(CLAIM_ROWS):
            with timed("embed", texts=len(claimed), by="worker") as counts:
                counts["stored"] = await self._embed(claimed)

    async def _embed(self, claimed: list[Claimed]) -> int:
        try:
            embeddings = await self._embedder.embed([c.text for c in claimed], "passage")
        except (EmbeddingError, ValueError) as error:
            if len(claimed) > 1:
                # one text must not keep the others waiting
                return sum([await self._embed([one]) for one in claimed])
            one = claimed[0]
            pause = min(LONGEST_PAUSE_SECONDS, 2.0 ** min(one.attempts, 10))
            if isinstance(error, EmbeddingError) and error.retry_after is not None:
                pause = max(pause, error.retry_after)
            await self._store.postpone_embedding(one, pause, str(error))
            return 0
        for one, embedding in zip(claimed, embeddings, strict=True):
            await self._store.store_embedding(one, embedding)
        return len(claimed)
