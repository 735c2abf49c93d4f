"""The tools: product copy, arguments in, replies out. What they do is SQL."""

from dataclasses import asdict
from typing import Annotated, Any
from uuid import UUID

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field

from memphant.errors import MemphantError
from memphant.logs import timed
from memphant.replies import ForgetReply, FoundReply, HistoryReply, MemoryReply, SaveReply
from memphant.services import Services
from memphant.texts import Names, one_or_many, parsed, removal_note, storable
from memphant.tooling import Cursor, Integer, Limit, Since, Tags, Types, Until, tool


def build_tools(services: Services) -> list[Tool]:
    """Every tool, bound to the services."""

    async def save_memory(
        content: Annotated[
            str, Field(description="One self-contained statement, in its own language.")
        ] = "",
        memory_type: Annotated[
            str,
            Field(
                description="user_preference, fact (default), task_context (state of work), plan "
                "or summary."
            ),
        ] = "",
        tags: Annotated[Names, Field(description="Short labels to filter by.")] = [],  # noqa: B006
        confidence: Annotated[float | None, Field(description="0 to 1; default by source.")] = None,
        source: Annotated[
            str,
            Field(
                description="user (said by them), conversation (default), assistant (inferred), "
                "file, tool, web, log or import."
            ),
        ] = "",
        occurred_at: Annotated[
            str, Field(description="When it was said or happened, ISO 8601; default now.")
        ] = "",
        conversation_id: Annotated[
            str, Field(description="Turns of one conversation support each other in search.")
        ] = "",
        metadata: Annotated[dict[str, Any] | None, Field(description="Any JSON object.")] = None,
        shared: Annotated[
            bool | None, Field(description="Let the user's other agents read it.")
        ] = None,
        idempotency_key: Annotated[
            str, Field(description="Makes a retry after a time-out safe.")
        ] = "",
        memories: Annotated[
            list[Any] | None,
            Field(description="Instead of content: up to 100 objects with the fields above."),
        ] = None,
    ) -> SaveReply:
        given = {
            "content": content,
            "memory_type": memory_type,
            "tags": tags,
            "confidence": confidence,
            "source": source,
            "occurred_at": occurred_at,
            "conversation_id": conversation_id,
            "metadata": metadata,
            "shared": shared,
            "idempotency_key": idempotency_key,
        }
        single = {key: value for key, value in given.items() if value not in ("", None, [])}
        if memories is None:
            return await _save(services, [single], one=True)
        if single:
            raise ToolError(
                f"Pass either memories or {', '.join(single)}: with a list, every field belongs "
                "to an item."
            )
        return await _save(services, memories, one=False)

    async def search_memories(
        query: Annotated[str, Field(description="A question or a few words, in any language.")],
        memory_type: Types = [],  # noqa: B006
        tags: Tags = [],  # noqa: B006
        limit: Limit = 10,
        cursor: Cursor = "",
        recent_first: Annotated[bool, Field(description="Order what was found by time.")] = False,
        since: Since = "",
        until: Until = "",
        min_score: Annotated[
            float | None,
            Field(description="Leave out weaker ones; 0.3 is a fair floor, 1 a full match."),
        ] = None,
        explain: Annotated[bool, Field(description="Add the score of each arm.")] = False,
        time_zone: Annotated[
            str, Field(description="IANA name, for times in the query; default the user's.")
        ] = "",
        as_of: Annotated[str, Field(description="Only what held at this time.")] = "",
    ) -> FoundReply:
        who = await services.principal()
        with timed("search") as counts:
            embedding, notes = await services.embed_query(query)
            reply = await services.store.search(
                who,
                query,
                embedding,
                memory_types=memory_type or None,
                tags=tags or None,
                limit=limit,
                cursor=cursor or None,
                recent_first=recent_first,
                since=since or None,
                until=until or None,
                min_score=min_score,
                explain=explain,
                time_zone=time_zone or None,
                as_of=as_of or None,
            )
            counts["found"] = len(reply["memories"])
        services.worker.used(who, reply["memories"])
        reply["notes"] += notes
        return FoundReply(**reply)

    async def list_memories(
        memory_type: Types = [],  # noqa: B006
        tags: Tags = [],  # noqa: B006
        since: Since = "",
        until: Until = "",
        limit: Limit = 20,
        cursor: Cursor = "",
    ) -> FoundReply:
        who = await services.principal()
        with timed("list") as counts:
            reply = await services.store.list_memories(
                who,
                memory_types=memory_type or None,
                tags=tags or None,
                since=since or None,
                until=until or None,
                limit=limit,
                cursor=cursor or None,
            )
            counts["found"] = len(reply["memories"])
        return FoundReply(**reply)

    async def update_memory(
        memory_id: Annotated[str, Field(description="The id that a save, search or list gave.")],
        content: Annotated[str, Field(description="The corrected text.")] = "",
        memory_type: str = "",
        tags: Annotated[Names | None, Field(description="Replaces all tags.")] = None,
        confidence: float | None = None,
        confirmed: Annotated[
            bool | None, Field(description="true only if a person said it is right.")
        ] = None,
        shared: bool | None = None,
        occurred_at: str = "",
        metadata: Annotated[
            dict[str, Any] | None, Field(description="Replaces all metadata.")
        ] = None,
        version: Annotated[
            Integer | None, Field(description="Alone: go back to this version.")
        ] = None,
        restore: Annotated[
            bool, Field(description="Alone: bring back what was forgotten or archived.")
        ] = False,
    ) -> MemoryReply:
        who = await services.principal()
        identifier = _identifier(memory_id)
        corrections = {
            "content": content or None,
            "memory_type": memory_type or None,
            "tags": tags,
            "confidence": confidence,
            "confirmed": confirmed,
            "shared": shared,
            "occurred_at": occurred_at or None,
            "metadata": metadata,
        }
        given = [name for name, value in corrections.items() if value is not None]
        if (version is not None) + restore + bool(given) > 1:
            raise ToolError("version and restore stand alone: make other changes in a second call.")
        notes: list[str] = []
        with timed("update"):
            if restore:
                memory = await services.store.restore(who, identifier)
            elif version is not None:
                memory = await services.store.revert(who, identifier, version)
            else:
                embedding = None
                if content.strip():
                    embedding, notes = await services.embed_passage(content)
                memory = await services.store.update(who, identifier, embedding, **corrections)
        services.worker.wake()
        return MemoryReply(memory=memory, notes=notes)

    async def forget_memory(
        memory_id: Annotated[
            str, Field(description="One memory; else conditions, all of which must hold.")
        ] = "",
        days_older_than: float | None = None,
        memory_type: Annotated[
            Names,
            Field(description="These types; user_preference and summary go only if named."),
        ] = [],  # noqa: B006
        tags: Annotated[Names, Field(description="All of these tags.")] = [],  # noqa: B006
        below_confidence: float | None = None,
        dry_run: Annotated[bool, Field(description="Only show what would go.")] = False,
        purge: Annotated[
            bool, Field(description="Remove for good, history too; cannot be undone.")
        ] = False,
    ) -> ForgetReply:
        who = await services.principal()
        with timed("forget") as counts:
            reply = await services.store.forget(
                who,
                memory_id=_identifier(memory_id) if memory_id else None,
                days_older_than=days_older_than,
                memory_types=memory_type or None,
                tags=tags or None,
                below_confidence=below_confidence,
                dry_run=dry_run,
                purge=purge,
            )
            counts["forgotten"] = reply["forgotten"]
        return ForgetReply(**reply)

    async def memory_history(
        memory_id: Annotated[str, Field(description="The id that a save, search or list gave.")],
    ) -> HistoryReply:
        who = await services.principal()
        with timed("history") as counts:
            versions = await services.store.history(who, _identifier(memory_id))
            counts["versions"] = len(versions)
        return HistoryReply(
            versions=[
                {key: value for key, value in asdict(version).items() if value is not None}
                for version in versions
            ],
            notes=[],
        )

    return [
        tool(
            save_memory,
            "Save",
            "Call this when you learn something worth knowing in a later session: a preference, a "
            "fact, a decision, a plan, the state of a task, a solution. The same text again "
            "strengthens the memory that holds it.",
            ToolAnnotations(
                read_only_hint=False,
                destructive_hint=False,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        ),
        tool(
            search_memories,
            "Search",
            "Call this before you answer anything that earlier sessions may have settled: the "
            "user's preferences, people, projects, decisions, plans. Finds by meaning and by exact "
            "words, across languages. Scores are absolute; what scores low is not relevant.",
            ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        tool(
            list_memories,
            "List",
            "Call this to look through memories by time, type or tag, newest first; to answer a "
            "question, search instead.",
            ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        tool(
            update_memory,
            "Correct",
            "Call this when a memory is wrong or incomplete, or the user confirms it. What you do "
            "not name stays.",
            ToolAnnotations(
                read_only_hint=False,
                destructive_hint=True,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        ),
        tool(
            forget_memory,
            "Forget",
            "Call this when the user asks to forget something, or a memory is worthless. Unless "
            "purged, update_memory with restore brings it back within 30 days.",
            ToolAnnotations(
                read_only_hint=False,
                destructive_hint=True,
                idempotent_hint=True,
                open_world_hint=False,
            ),
        ),
        tool(
            memory_history,
            "History",
            "Call this to see how a memory changed: every version, who replaced it and when. "
            "update_memory goes back to one.",
            ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
    ]


async def _save(services: Services, items: list[Any], *, one: bool) -> SaveReply:
    who = await services.principal()
    cleaned, removed = storable([_coerced(item) for item in items])
    with timed("save", items=len(items)) as counts:
        embeddings, notes = await services.embed_items(cleaned)
        saved = await services.store.save_list(who, cleaned, embeddings)
        counts |= {
            "saved": sum(item.status == "saved" for item in saved),
            "refused": sum(item.status == "error" for item in saved),
        }
    services.worker.wake()
    if one and saved[0].status == "error":
        raise MemphantError(saved[0].message or "refused", saved[0].hint or "", saved[0].code or "")
    results = []
    for item, embedding in zip(saved, embeddings, strict=True):
        result: dict[str, Any] = {"index": item.index, "status": item.status}
        if item.status == "error":
            result["error"] = f"{item.message}. {item.hint}"
        else:
            result["memory"] = item.memory
            if embedding is not None and embedding.windows > 1:
                result["note"] = (
                    f"longer than the model's limit: embedded in {embedding.windows} windows, "
                    "averaged"
                )
        results.append(result)
    return SaveReply(results=results, notes=notes + removal_note(removed))


def _coerced(item: Any) -> Any:
    item = parsed(item, dict)
    if not isinstance(item, dict):
        return item
    # null, and the empty texts that stand for it in the single form, mean "not given"
    item = {key: value for key, value in item.items() if value is not None and value != ""}
    if "tags" in item:
        item["tags"] = one_or_many(item["tags"])
    if "metadata" in item:
        item["metadata"] = parsed(item["metadata"], dict)
    if "shared" in item:
        item["shared"] = parsed(item["shared"], bool)
    return item


def _identifier(memory_id: str) -> UUID:
    try:
        return UUID(memory_id)
    except ValueError:
        raise ToolError(
            f"memory_id is not an id: {memory_id[:60]!r}. Use one that a save, search or list gave."
        ) from None
