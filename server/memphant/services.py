"""What a server process holds: database, store, model, worker, and who calls."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from memphant import database, schema
from memphant.breaker import Breaker
from memphant.embedding import Embedder, Embedding, EmbeddingError, build_embedder
from memphant.errors import UNAVAILABLE, MemphantError
from memphant.settings import Settings
from memphant.store import Principal, Store
from memphant.worker import Worker

_log = logging.getLogger(__name__)

READ_ONLY = "25006"
START_AGAIN_SECONDS = 2.0
NO_TOKEN = (
    "Listening on {host} would open the memories to everybody who can reach it. Make a token first "
    "(memphant token create --user USER --agent AGENT), or listen on 127.0.0.1."
)


class Services:
    """Opened once per process. `start` may run while a client already waits (stdio)."""

    store: Store
    worker: Worker
    database: database.Database

    def __init__(self, settings: Settings, bearer: Callable[[], Principal] | None) -> None:
        """`bearer` tells the principal of a request in token mode; None: always the local one."""
        self.settings = settings
        self.embedder: Embedder = build_embedder(settings.embedding())
        self.breaker = Breaker(self.embedder)
        self.local = Principal(settings.user, settings.agent)
        self.tokens_required = False
        self._bearer = bearer
        self._starting: asyncio.Task[None] | None = None
        self._failed_at: float | None = None
        self._reviving = asyncio.Lock()
        self._not_revived: tuple[float, MemphantError] | None = None
        self._no_dimensions: MemphantError | None = None

    async def start(self) -> None:
        """Starts or reaches the database, installs the embedded one, and checks the model.

        Raises:
            MemphantError: something is missing or does not fit; the message says what to do.
        """
        await self._learn_dimensions()
        await self._open_database()
        await database.wait_while_starting(self.database.server)
        await asyncio.to_thread(self._fit_schema)
        revive = None if self.database.running is None else self._revive
        self.store = Store(self.database.server, self.settings.pool_size, revive)
        await self.store.open()
        await self._check_model()
        if self._bearer is not None:
            # fixed for the life of this process: a token made later counts from the next start on
            self.tokens_required = await self.store.tokens_required()
            if not self.tokens_required and not self.settings.loopback:
                raise MemphantError(NO_TOKEN.format(host=self.settings.host))
        if not self.tokens_required:
            try:
                await self.store.ensure_user(self.local)
            except MemphantError as error:
                if error.code != READ_ONLY:
                    raise
                _log.warning("%s Memories can be read, not saved.", error)
        self.worker = Worker(self.store, self.breaker)
        self.worker.start()

    def start_in_background(self) -> None:
        """Lets a client say hello while the database starts; tools wait in `principal`."""
        self._starting = asyncio.create_task(self._start_or_release())

    async def _start_or_release(self) -> None:
        try:
            await self.start()
        except MemphantError:
            await self._release()
            self._failed_at = time.monotonic()
            raise

    async def stop(self) -> None:
        """Ends the work, writes what is collected, and stops the embedded Postgres."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        try:
            await self._release()
        finally:
            await self.embedder.close()

    async def _release(self) -> None:
        opened = self.__dict__
        try:
            if "worker" in opened:
                await opened.pop("worker").stop()
            if "store" in opened:
                await opened.pop("store").close()
        finally:
            if "database" in opened:
                await asyncio.to_thread(opened.pop("database").stop)

    async def principal(self) -> Principal:
        """Who calls. Waits until the services have started; raises what they failed with.

        A start that failed is tried again: what was missing may be there now, and a client over
        stdio has no other way to ask for it.
        """
        if self._starting is not None:
            failed_at = self._failed_at
            if failed_at is not None and time.monotonic() > failed_at + START_AGAIN_SECONDS:
                self._failed_at = None
                self.start_in_background()
            await asyncio.shield(self._starting)
        if self._bearer is not None and self.tokens_required:
            return self._bearer()
        return self.local

    async def embed_query(self, query: str) -> tuple[Embedding | None, list[str]]:
        """The vector of a query, or None and a note that says why."""
        try:
            return (await self.breaker.embed_now([query], "query"))[0], []
        except ValueError:
            return None, []
        except EmbeddingError as error:
            return None, [f"the embedding model did not answer: {error.reason}"]

    async def embed_passage(self, content: str) -> tuple[Embedding | None, list[str]]:
        """The vector of one content, or None and a note that says why."""
        embeddings, notes = await self.embed_items([{"content": content}])
        return embeddings[0], notes

    async def embed_items(self, items: list[Any]) -> tuple[list[Embedding | None], list[str]]:
        """A vector for each item that can have one; an item that will be refused has none."""
        contents = [item.get("content") if isinstance(item, dict) else None for item in items]
        positions = [i for i, c in enumerate(contents) if isinstance(c, str) and c.strip()]
        embeddings: list[Embedding | None] = [None] * len(items)
        if not positions:
            return embeddings, []
        texts = await self.store.indexed_texts([str(contents[i]) for i in positions])
        wanted = [(i, text) for i, text in zip(positions, texts, strict=True) if text is not None]
        try:
            found = await self.breaker.embed_now([text for _, text in wanted], "passage")
        except (EmbeddingError, ValueError) as error:
            return embeddings, [
                f"saved without a vector ({error}): found by keywords until the worker "
                "has embedded it"
            ]
        for (position, _), embedding in zip(wanted, found, strict=True):
            embeddings[position] = embedding
        return embeddings, []

    async def _revive(self) -> None:
        # one of many callers that lost their connection starts the embedded Postgres again
        before = self.database
        began = time.monotonic()
        async with self._reviving:
            if self.database is not before:
                return
            if self._not_revived is not None and self._not_revived[0] > began:
                raise self._not_revived[1]  # it was just tried, while this caller waited its turn
            try:
                self.database = await asyncio.to_thread(database.open_database, self.settings)
            except MemphantError as error:
                _log.error("the embedded Postgres does not start again: %s", error)
                told = MemphantError(str(error), code=UNAVAILABLE)
                self._not_revived = (time.monotonic(), told)
                raise told from error
            await asyncio.to_thread(before.stop)

    async def _learn_dimensions(self) -> None:
        self._no_dimensions = None
        probe = getattr(self.embedder, "probe", None)
        if probe is None or self.settings.embedding_dimensions is not None:
            return
        try:
            await probe()
        except EmbeddingError as error:
            # the database may know them
            self._no_dimensions = MemphantError(
                f"The embedding endpoint does not answer: {error.reason}",
                "Check MEMPHANT_EMBEDDING_BASE_URL, _MODEL and _API_KEY. Once a database holds "
                "the model's vectors, memphant starts without the endpoint.",
            )

    def _recall_dimensions(self) -> None:
        """Takes the dimensions that the database recorded for this model, if it could not tell."""
        if self._no_dimensions is None:
            return
        with database.connect(self.database.server) as connection:
            recorded = schema.recorded_model(connection)
        if recorded is None or recorded[0] != self.embedder.name:
            raise self._no_dimensions
        self.embedder.expect(recorded[1])  # type: ignore[attr-defined]
        _log.warning("%s Memories are saved without vectors until it does.", self._no_dimensions)

    async def _open_database(self) -> None:
        opening = asyncio.create_task(asyncio.to_thread(database.open_database, self.settings))
        try:
            self.database = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # the thread goes on all the same, and `stop` must stop what it starts
            with contextlib.suppress(MemphantError):
                self.database = await opening
            raise

    def _fit_schema(self) -> None:
        self._recall_dimensions()
        if self.database.running is not None:
            ran = database.install(
                self.database,
                self.embedder.name,
                self.embedder.dimensions,
                only_if_changed=True,
            )
            if ran:
                _log.info("installed %s", ", ".join(ran))
        else:
            with database.connect(self.database.server) as connection:
                schema.check(connection)

    async def _check_model(self) -> None:
        name, dimensions = await self.store.model()
        if (name, dimensions) != (self.embedder.name, self.embedder.dimensions):
            raise MemphantError(
                f"This database holds vectors of {name} with {dimensions} dimensions, but the "
                f"server is set to {self.embedder.name} with {self.embedder.dimensions}",
                "Set MEMPHANT_EMBEDDING_* to the recorded model, use another database, or, while "
                "no vector is stored, run: memphant install",
            )
