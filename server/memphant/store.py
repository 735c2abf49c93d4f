"""Every SQL statement of the server, beside the method that runs it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, TypeVar
from uuid import UUID

from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from memphant.embedding import Embedding
from memphant.pool import Pool, Revive

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: from the token, or the settings in local mode. Never from arguments."""

    user_id: str
    agent_id: str
    share_by_default: bool = False


@dataclass(frozen=True, slots=True)
class SavedItem:
    """One row of memory.save_list."""

    index: int
    status: str
    id: UUID | None
    memory: dict[str, Any] | None
    code: str | None
    message: str | None
    hint: str | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """One row of memory.claim_unembedded."""

    user_id: str
    memory_id: UUID
    version: int
    text: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Version:
    """One row of memory.history; what replaced it is None for the current version."""

    version: int
    memory: dict[str, Any]
    replaced_at: datetime | None
    replaced_by: str | None
    operation: str | None


def vector_text(embedding: Embedding | None) -> str | None:
    """A vector as pgvector reads it, with the seven digits that a 16-bit float cannot exceed."""
    if embedding is None:
        return None
    return "[" + ",".join(f"{value:.7g}" for value in embedding.vector.tolist()) + "]"


class Store:
    """What the server asks of the database, as an ordinary role."""

    def __init__(self, conninfo: str, pool_size: int = 10, revive: Revive | None = None) -> None:
        """`revive` starts the database again where it is ours; called when it seems to be gone."""
        self._pool = Pool(conninfo, pool_size, revive)

    async def open(self) -> None:
        """Opens the pool; waits for a first connection."""
        await self._pool.open()

    async def close(self) -> None:
        """Closes every connection."""
        await self._pool.close()

    async def ping(self) -> None:
        """Raises MemphantError unless the database answers."""
        await self._rows("select 1 as one")

    async def authenticate(self, digest: bytes) -> Principal | None:
        """Whose token it is, by its SHA-256; None if unknown or revoked."""
        rows = await self._rows(
            """select a.user_id, a.agent_id, a.share_by_default
            from memory.authenticate(digest => %(digest)s) as a""",
            digest=digest,
        )
        return Principal(**rows[0]) if rows else None

    async def tokens_required(self) -> bool:
        """Whether any token was ever made."""
        rows = await self._rows("select memory.tokens_required() as required")
        return bool(rows[0]["required"])

    async def model(self) -> tuple[str, int]:
        """Name and dimensions of the recorded embedding model."""
        rows = await self._rows("select m.name, m.dimensions from memory.embedding_model as m")
        return rows[0]["name"], rows[0]["dimensions"]

    async def ensure_user(self, who: Principal) -> None:
        """Creates the user if it is new."""
        await self._rows(
            """select u.user_id
            from memory.set_user(user_id => %(user_id)s, agent_id => %(agent_id)s) as u""",
            user_id=who.user_id,
            agent_id=who.agent_id,
        )

    async def indexed_texts(self, contents: Sequence[str]) -> list[str | None]:
        """What of each content is to be embedded; None where it is too long to be saved."""
        rows = await self._rows(
            """select case when length(c.content) <= memory._number('limits.content')
                then memory.indexed_text(content => c.content) end as text
            from unnest(%(contents)s::text[]) with ordinality as c (content, n)
            order by c.n""",
            contents=list(contents),
        )
        return [row["text"] for row in rows]

    async def save_list(
        self,
        who: Principal,
        items: Sequence[dict[str, Any]],
        embeddings: Sequence[Embedding | None],
    ) -> list[SavedItem]:
        """Saves items in one transaction; a result for each, in their order."""
        return await self._rows_of(
            SavedItem,
            """select s.index, s.status, s.id, s.memory, s.code, s.message, s.hint
            from memory.save_list(
                user_id => %(user_id)s, agent_id => %(agent_id)s, items => %(items)s,
                embeddings => %(embeddings)s, share_by_default => %(share)s) as s
            order by s.index""",
            user_id=who.user_id,
            agent_id=who.agent_id,
            items=Jsonb(list(items)),
            embeddings=_vector_array(embeddings),
            share=who.share_by_default,
        )

    async def search(
        self, who: Principal, query: str, embedding: Embedding | None, **given: Any
    ) -> dict[str, Any]:
        """The reply of memory.search_reply."""
        return await self._reply(
            """select memory.search_reply(
                user_id => %(user_id)s, agent_id => %(agent_id)s, query => %(query)s,
                embedding => %(embedding)s, memory_types => %(memory_types)s, tags => %(tags)s,
                max_results => %(limit)s, since => %(since)s, until => %(until)s,
                min_score => %(min_score)s, recent_first => %(recent_first)s,
                cursor => %(cursor)s, explain => %(explain)s, time_zone => %(time_zone)s,
                as_of => %(as_of)s) as reply""",
            who,
            query=query,
            embedding=vector_text(embedding),
            **given,
        )

    async def list_memories(self, who: Principal, **given: Any) -> dict[str, Any]:
        """The reply of memory.list_reply."""
        return await self._reply(
            """select memory.list_reply(
                user_id => %(user_id)s, agent_id => %(agent_id)s,
                memory_types => %(memory_types)s, tags => %(tags)s, max_results => %(limit)s,
                since => %(since)s, until => %(until)s, cursor => %(cursor)s) as reply""",
            who,
            **given,
        )

    async def newest(
        self, who: Principal, limit: int, *, only: str | None = None, never: str | None = None
    ) -> list[dict[str, Any]]:
        """The newest memories: of one type only, or of every type but one."""
        reply = await self._reply(
            """select memory.list_reply(
                user_id => %(user_id)s, agent_id => %(agent_id)s,
                memory_types => array(
                    select t.name from memory.memory_types as t
                    where t.name = coalesce(%(only)s, t.name)
                        and t.name is distinct from %(never)s),
                max_results => %(limit)s) as reply""",
            who,
            only=only,
            never=never,
            limit=limit,
        )
        memories: list[dict[str, Any]] = reply["memories"]
        return memories

    async def get(self, who: Principal, memory_id: UUID) -> dict[str, Any]:
        """One memory."""
        return await self._reply(
            """select memory.get(
                user_id => %(user_id)s, agent_id => %(agent_id)s,
                memory_id => %(memory_id)s) as reply""",
            who,
            memory_id=memory_id,
        )

    async def update(
        self, who: Principal, memory_id: UUID, embedding: Embedding | None, **given: Any
    ) -> dict[str, Any]:
        """The stored state after a correction."""
        metadata = given.pop("metadata")
        return await self._reply(
            """select memory.update(
                user_id => %(user_id)s, agent_id => %(agent_id)s, memory_id => %(memory_id)s,
                content => %(content)s, memory_type => %(memory_type)s, tags => %(tags)s,
                confidence => %(confidence)s, confirmed => %(confirmed)s, shared => %(shared)s,
                occurred_at => %(occurred_at)s, metadata => %(metadata)s,
                embedding => %(embedding)s) as reply""",
            who,
            again=False,
            memory_id=memory_id,
            embedding=vector_text(embedding),
            metadata=None if metadata is None else Jsonb(metadata),
            **given,
        )

    async def restore(self, who: Principal, memory_id: UUID) -> dict[str, Any]:
        """The stored state after a forgotten or archived memory came back."""
        return await self._reply(
            """select memory.restore(
                user_id => %(user_id)s, agent_id => %(agent_id)s,
                memory_id => %(memory_id)s) as reply""",
            who,
            again=False,
            memory_id=memory_id,
        )

    async def revert(self, who: Principal, memory_id: UUID, version: int) -> dict[str, Any]:
        """The stored state after going back to a version."""
        return await self._reply(
            """select memory.revert(
                user_id => %(user_id)s, agent_id => %(agent_id)s, memory_id => %(memory_id)s,
                version => %(version)s) as reply""",
            who,
            again=False,
            memory_id=memory_id,
            version=version,
        )

    async def history(self, who: Principal, memory_id: UUID) -> list[Version]:
        """Every version of a memory, newest first."""
        return await self._rows_of(
            Version,
            """select h.version, h.memory, h.replaced_at, h.replaced_by, h.operation
            from memory.history(
                user_id => %(user_id)s, agent_id => %(agent_id)s,
                memory_id => %(memory_id)s) as h
            order by h.version desc""",
            user_id=who.user_id,
            agent_id=who.agent_id,
            memory_id=memory_id,
        )

    async def forget(self, who: Principal, **given: Any) -> dict[str, Any]:
        """The reply of memory.forget_reply."""
        return await self._reply(
            """select memory.forget_reply(
                user_id => %(user_id)s, agent_id => %(agent_id)s, memory_id => %(memory_id)s,
                days_older_than => %(days_older_than)s, memory_types => %(memory_types)s,
                tags => %(tags)s, below_confidence => %(below_confidence)s,
                dry_run => %(dry_run)s, purge => %(purge)s) as reply""",
            who,
            again=False,
            **given,
        )

    async def lease_seconds(self) -> float:
        """How long a claimed memory is left alone by other workers."""
        rows = await self._rows("select memory._number('worker.lease_seconds') as seconds")
        return float(rows[0]["seconds"])

    async def claim_unembedded(self, max_rows: int) -> list[Claimed]:
        """Leases memories that wait for a vector."""
        return await self._rows_of(
            Claimed,
            """select c.user_id, c.memory_id, c.version, c.text, c.attempts
            from memory.claim_unembedded(max_rows => %(max_rows)s) as c""",
            max_rows=max_rows,
        )

    async def store_embedding(self, claimed: Claimed, embedding: Embedding) -> None:
        """Gives a claimed memory its vector, unless it changed meanwhile."""
        await self._rows(
            """select memory.store_embedding(
                user_id => %(user_id)s, memory_id => %(memory_id)s, version => %(version)s,
                embedding => %(embedding)s) as stored""",
            user_id=claimed.user_id,
            memory_id=claimed.memory_id,
            version=claimed.version,
            embedding=vector_text(embedding),
        )

    async def postpone_embedding(self, claimed: Claimed, seconds: float, error: str) -> None:
        """Puts a claimed memory back, to be tried again in so many seconds."""
        await self._rows(
            """select memory.postpone_embedding(
                user_id => %(user_id)s, memory_id => %(memory_id)s, seconds => %(seconds)s,
                error => %(error)s) as done""",
            user_id=claimed.user_id,
            memory_id=claimed.memory_id,
            seconds=seconds,
            error=error,
        )

    async def record_uses(self, uses: Sequence[dict[str, Any]]) -> None:
        """Counts collected uses."""
        await self._rows(
            "select memory.record_uses(uses => %(uses)s) as recorded",
            again=False,
            uses=Jsonb(list(uses)),
        )

    async def purge(self) -> dict[str, int]:
        """Removes what the grace periods have ended for; rows by kind."""
        rows = await self._rows("select p.what, p.rows from memory.purge() as p")
        return {row["what"]: row["rows"] for row in rows}

    async def _reply(
        self, statement: LiteralString, who: Principal, /, *, again: bool = True, **given: Any
    ) -> dict[str, Any]:
        given |= {"user_id": who.user_id, "agent_id": who.agent_id}
        rows = await self._pool.fetch(dict_row, statement, given, again)
        reply: dict[str, Any] = rows[0]["reply"]
        return reply

    async def _rows(
        self, statement: LiteralString, /, *, again: bool = True, **given: Any
    ) -> list[dict[str, Any]]:
        return await self._pool.fetch(dict_row, statement, given, again)

    async def _rows_of(self, row: type[T], statement: LiteralString, /, **given: Any) -> list[T]:
        return await self._pool.fetch(class_row(row), statement, given, again=True)


def _vector_array(embeddings: Sequence[Embedding | None]) -> str:
    texts = (vector_text(embedding) for embedding in embeddings)
    return "{" + ",".join("null" if text is None else json.dumps(text) for text in texts) + "}"
