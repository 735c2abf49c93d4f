"""Background work of one server process: missing vectors, uses to count, what is to be purged."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from memphant.breaker import Breaker
from memphant.embedding import EmbeddingError
from memphant.errors import MemphantError
from memphant.logs import timed
from memphant.store import Claimed, Principal, Store

CLAIM_ROWS = 16
IDLE_SECONDS = 2.0
FLUSH_SECONDS = 5.0
PURGE_SECONDS = 3600.0
STOP_SECONDS = 3.0
LONGEST_PAUSE_SECONDS = 300.0
"""Between two attempts at a memory that fails while others succeed."""
LONGEST_REST_SECONDS = 30.0
"""Between two attempts while nothing succeeds: the model, or the database, is out of order."""
LEASE_SHARE = 0.8
"""What embedding may take of a lease, after which another worker may claim the memories."""

_log = logging.getLogger(__name__)


class Worker:
    """Any number of processes may run one: claims skip what another holds."""

    def __init__(self, store: Store, embedder: Breaker) -> None:
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
        with suppress(MemphantError, TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
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
        rest = 0.0
        while True:
            try:
                await work()
                rest = 0.0
            except Exception as error:
                # rarer and rarer while it lasts, whatever wakes it
                rest = min(LONGEST_REST_SECONDS, max(1.0, 2 * rest))
                if isinstance(error, MemphantError | EmbeddingError):
                    _log.warning("background work %s: %s", name, error)
                else:
                    _log.exception("background work %s failed", name)
                await asyncio.sleep(rest)
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), max(0.0, seconds - rest))
            wake.clear()

    async def _purge(self) -> None:
        await self._store.purge()

    async def _embed_all(self) -> None:
        seconds = await self._store.lease_seconds() * LEASE_SHARE
        while claimed := await self._store.claim_unembedded(CLAIM_ROWS):
            with timed("embed", texts=len(claimed), by="worker") as counts:
                failures = await self._embed_claimed(claimed, seconds)
                counts["stored"] = len(claimed) - len(failures)
                if len(failures) == len(claimed):
                    # no memory is to blame: let the model rest
                    raise failures[0][1]

    async def _embed_claimed(
        self, claimed: list[Claimed], seconds: float
    ) -> list[tuple[Claimed, EmbeddingError]]:
        """Embeds what can be embedded in time; postpones the rest, and returns it."""
        failures: list[tuple[Claimed, EmbeddingError]] = []
        groups = [claimed]
        in_a_row = 0
        error = EmbeddingError("the model did not answer before the lease ended")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # two texts that fail one after the other are not to blame
                while groups and in_a_row < 2:
                    group = groups.pop(0)
                    try:
                        await self._embed(group)
                        in_a_row = 0
                    except (EmbeddingError, ValueError) as failed:
                        error = (
                            failed
                            if isinstance(failed, EmbeddingError)
                            else EmbeddingError(str(failed))
                        )
                        if len(group) > 1:
                            # one text must not keep the others waiting
                            groups = [[one] for one in group]
                        else:
                            failures.append((group[0], error))
                            in_a_row += 1
        failures += [(one, error) for group in groups for one in group]
        for one, reason in failures:
            longest = LONGEST_REST_SECONDS
            if len(failures) < len(claimed):
                longest = LONGEST_PAUSE_SECONDS
            pause = max(min(longest, 2.0 ** min(one.attempts, 10)), reason.retry_after or 0)
            await self._store.postpone_embedding(one, pause, str(reason))
        return failures

    async def _embed(self, claimed: list[Claimed]) -> None:
        embeddings = await self._embedder.embed([c.text for c in claimed], "passage")
        for one, embedding in zip(claimed, embeddings, strict=True):
            await self._store.store_embedding(one, embedding)
