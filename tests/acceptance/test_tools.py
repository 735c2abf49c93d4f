"""The tools over HTTP: what agents send, rightly or wrongly, and what they are told."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from tests.acceptance.conftest import (
    HEADERS,
    Agent,
    ServerProcess,
    connected,
    post,
    tool_call,
    wait_until,
)
from tests.conftest import TestDatabase

NO_ID = "019f0000-0000-7000-8000-000000000000"


def structured(answer: Any) -> dict[str, Any]:
    result: dict[str, Any] = answer.json()["result"]
    assert not result.get("isError"), result
    content: dict[str, Any] = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == content
    return content


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search_memories", {"query": "r18", "since": "2026-01-01", "time_range": "last week"}),
        ("save_memory", {"content": "r18 unknown", "importance": 7, "time_range": 1}),
        ("list_memories", {"time_range": "x"}),
        (
            "update_memory",
            {"memory_id": NO_ID, "time_range": "x"},
        ),
        ("forget_memory", {"tags": ["r18-none"], "time_range": "x"}),
        (
            "memory_history",
            {"memory_id": NO_ID, "time_range": "x"},
        ),
    ],
)
async def test_r18_an_unknown_argument_is_an_error_that_names_it(
    local: ServerProcess, tool: str, arguments: dict[str, Any]
) -> None:
    async with connected(local) as agent:
        words = await agent.refused(tool, **arguments)
        assert "unknown argument 'time_range'" in words
        assert f"{tool} takes:" in words
        assert await agent.listed(tags=["r18-none"]) == []


async def test_r18_an_unknown_field_of_a_list_item_is_an_error_of_that_item(
    local: ServerProcess,
) -> None:
    async with connected(local) as agent:
        reply = await agent.call(
            "save_memory",
            memories=[{"content": "r18 item one", "importance": 3}, {"content": "r18 item two"}],
        )
        assert [r["status"] for r in reply["results"]] == ["error", "saved"]
        assert "importance" in reply["results"][0]["error"]


async def test_r18_the_window_is_honoured_and_echoed(local: ServerProcess) -> None:
    async with connected(local) as agent:
        for day in ("2026-05-07", "2026-05-20", "2026-05-21"):
            await agent.save(f"r18window standup of {day}", occurred_at=day, tags=["r18w"])
        arguments = {"tags": ["r18w"], "since": "2026-05-18", "until": "2026-05-20"}
        for reply in (
            await agent.call("search_memories", query="r18window standup", **arguments),
            await agent.call("list_memories", **arguments),
        ):
            assert [m["content"] for m in reply["memories"]] == ["r18window standup of 2026-05-20"]
            window = reply["searched"]["window"]
            assert window["from"].startswith("2026-05-18T00:00:00")
            assert window["to"].startswith("2026-05-21T00:00:00")
        words = await agent.refused("search_memories", query="r18window", since="last week-ish")
        assert "since is not a time: 'last week-ish'" in words


@pytest.mark.parametrize("parallel", [8, 50])
async def test_r25_parallel_saves_are_all_found_by_their_marker(
    local: ServerProcess, parallel: int
) -> None:
    markers = [f"r25m{parallel}x{number}" for number in range(parallel)]

    async def save(agent: Agent, marker: str) -> str:
        return str((await agent.save(f"The parcel {marker} is at the gate."))["id"])

    async with connected(local) as agent:
        ids = await asyncio.gather(*(save(agent, marker) for marker in markers))
        assert len(set(ids)) == parallel
        for marker in markers:
            assert (await agent.contents(marker, limit=1)) == [
                f"The parcel {marker} is at the gate."
            ]


async def test_r28_the_same_text_twice_is_one_reinforced_row(local: ServerProcess) -> None:
    async with connected(local) as agent:
        text = "r28 prefers the window seat"
        first = await agent.call("save_memory", content=text, tags=["a"], metadata={"x": 1})
        second = await agent.call(
            "save_memory", content=f"  {text}\n", tags=["b"], metadata={"y": 2}
        )
        assert [r["results"][0]["status"] for r in (first, second)] == ["saved", "reinforced"]
        memory = second["results"][0]["memory"]
        assert memory["id"] == first["results"][0]["memory"]["id"]
        assert (memory["content"], memory["tags"]) == (text, ["a", "b"])
        assert memory["metadata"] == {"x": 1, "y": 2}
        assert (await agent.contents("r28 window seat")).count(text) == 1


async def test_r30_changing_the_text_keeps_everything_else(local: ServerProcess) -> None:
    async with connected(local) as agent:
        saved = await agent.save(
            "r30 the printer stands in room 4",
            tags=["office", "printer"],
            metadata={"ticket": 7, "nested": {"a": [1, "2"]}},
            memory_type="task_context",
            confidence=0.7,
            conversation_id="r30",
            occurred_at="2026-03-01T10:00:00+02:00",
        )
        reply = await agent.call(
            "update_memory", memory_id=saved["id"], content="r30 the printer stands in room 9"
        )
        changed = {"content", "version", "updated_at"}
        assert {k: v for k, v in reply["memory"].items() if k not in changed} == {
            k: v for k, v in saved.items() if k not in changed
        }
        assert reply["memory"]["content"] == "r30 the printer stands in room 9"
        stored = await agent.read(f"memory://memories/{saved['id']}")
        assert stored == reply["memory"]
        found = await agent.search("r30 printer room 9", limit=1)
        assert found[0]["content"] == "r30 the printer stands in room 9"


async def test_an_update_of_one_field_keeps_the_text(local: ServerProcess) -> None:
    async with connected(local) as agent:
        saved = await agent.save("upd the fence is green", metadata={"k": 1})
        reply = await agent.call(
            "update_memory",
            memory_id=saved["id"],
            confidence=0.9,
            confirmed=True,
            tags="fence",
            memory_type="plan",
        )
        memory = reply["memory"]
        assert memory["content"] == saved["content"]
        assert memory["metadata"] == {"k": 1}
        assert (memory["confidence"], memory["tags"]) == (0.9, ["fence"])
        assert memory["memory_type"] == "plan"
        assert memory["confirmed_at"]


async def test_r31_json_and_numbers_in_strings_are_read(local: ServerProcess, mode: str) -> None:
    async with connected(local, mode=mode) as agent:
        saved = await agent.save(
            f"r31 {mode} the alarm is set",
            tags=f'["r31{mode}","b"]',
            metadata='{"k": 1}',
            confidence="0.75",
            shared="true",
        )
        assert saved["tags"] == [f"r31{mode}", "b"]
        assert saved["metadata"] == {"k": 1}
        assert (saved["confidence"], saved["shared"]) == (0.75, True)
        for n in range(6):
            await agent.save(f"r31 {mode} row {n}", tags=f"r31{mode}")
        reply = await agent.call(
            "search_memories",
            query="r31 row",
            limit="5",
            tags=f'["r31{mode}"]',
            memory_type='["fact"]',
            recent_first="true",
            explain="true",
            min_score="0",
        )
        assert len(reply["memories"]) == 5
        assert "arms" in reply["memories"][0]
        assert len(await agent.listed(tags=f"r31{mode}", limit="3")) == 3
        updated = await agent.call(
            "update_memory", memory_id=saved["id"], tags='["c"]', metadata='{"z": [1]}'
        )
        assert (updated["memory"]["tags"], updated["memory"]["metadata"]) == (["c"], {"z": [1]})
        gone = await agent.call(
            "forget_memory", tags=f'["r31{mode}"]', days_older_than="0", dry_run="true"
        )
        assert (gone["forgotten"], gone["would_forget"]) == (0, 6)


async def test_r31_json_and_numbers_in_strings_are_read_inside_a_list(
    local: ServerProcess,
) -> None:
    items = [
        {
            "content": "r31 list one",
            "tags": '["r31l","x"]',
            "metadata": '{"k": {"n": 2}}',
            "confidence": "0.6",
            "shared": "false",
            "memory_type": "plan",
        },
        json.dumps({"content": "r31 list two", "tags": "r31l", "occurred_at": ""}),
        {"content": "r31 list three", "tags": ["r31l"], "metadata": None, "source": ""},
    ]
    async with connected(local) as agent:
        for given in (items, json.dumps(items)):
            reply = await agent.call("save_memory", memories=given)
            assert [r["status"] for r in reply["results"]] in (["saved"] * 3, ["reinforced"] * 3)
        one, two, three = (r["memory"] for r in reply["results"])
        assert (one["tags"], one["metadata"]) == (["r31l", "x"], {"k": {"n": 2}})
        assert (one["confidence"], one["shared"], one["memory_type"]) == (0.6, False, "plan")
        assert (two["content"], two["tags"]) == ("r31 list two", ["r31l"])
        assert "metadata" not in three


@pytest.mark.parametrize(
    "content", ['{"k": 1}', '["a", "b"]', "42", "3.14", "true", "null", '"quoted"', "1e400"]
)
async def test_r31_content_that_looks_like_json_stays_text(
    local: ServerProcess, content: str
) -> None:
    async with connected(local) as agent:
        assert (await agent.save(content))["content"] == content
        reply = await agent.call("save_memory", memories=[{"content": f"r31 {content}"}])
        assert reply["results"][0]["memory"]["content"] == f"r31 {content}"
        found = await agent.call("search_memories", query=content)
        assert found["searched"]["user"] == "local"


async def test_r44_twenty_identical_saves_in_parallel_are_one_row(local: ServerProcess) -> None:
    async with connected(local) as agent:
        memories = await asyncio.gather(
            *(agent.save("r44 the ferry leaves at noon", tags=["r44"]) for _ in range(20))
        )
        assert len({memory["id"] for memory in memories}) == 1
        assert len(await agent.listed(tags=["r44"])) == 1


async def test_r44_a_retry_with_the_same_idempotency_key_is_one_row(local: ServerProcess) -> None:
    async with connected(local) as agent:
        arguments = {"tags": ["r44key"], "idempotency_key": "r44-1"}
        replies = await asyncio.gather(
            *(
                agent.call("save_memory", content="r44 the tram is late", **arguments)
                for _ in range(10)
            )
        )
        results = [reply["results"][0] for reply in replies]
        assert len({result["memory"]["id"] for result in results}) == 1
        assert sorted(r["status"] for r in results) == ["already saved"] * 9 + ["saved"]
        assert len(await agent.listed(tags=["r44key"])) == 1
        words = await agent.refused("save_memory", content="r44 something else", **arguments)
        assert "r44-1" in words


async def test_r44_a_retry_after_the_client_gave_up_is_one_row(local: ServerProcess) -> None:
    call = tool_call("save_memory", content="r44 the lift is broken", tags=["r44gone"])
    for milliseconds in (1, 3, 10, 20, 40):
        with contextlib.suppress(httpx2.TimeoutException):
            httpx2.post(
                local.url, json=call, headers=HEADERS, timeout=milliseconds / 1000, verify=False
            )
    assert structured(post(local, call))["results"][0]["memory"]
    async with connected(local) as agent:
        assert len(await agent.listed(tags=["r44gone"])) == 1


ZWJ = "r62 family 👨‍👩‍👧‍👦 and flag 🏳️‍🌈"
RTL = "r62 שלום עולם \u202bمرحبا\u202c"


async def test_r62_strange_text_never_costs_the_rest_of_the_list(local: ServerProcess) -> None:
    async with connected(local) as agent:
        reply = await agent.call(
            "save_memory",
            memories=[
                {"content": "r62 nul \u0000 inside", "tags": ["r62", "t\u0000ag"]},
                {"content": ZWJ, "tags": ["r62"]},
                {"content": RTL, "tags": ["r62"]},
                {"content": "x" * 2**20, "tags": ["r62"]},
                {"content": " \t\n\u200b\u3000", "tags": ["r62"]},
                {"content": "", "tags": ["r62"]},
                {"content": None},
                {"content": 42, "tags": ["r62"]},
                {"content": ["a"], "tags": ["r62"]},
                "r62 no object",
                {"content": "r62 plain", "tags": ["r62"], "metadata": {"k\u0000": "v\u0000"}},
            ],
        )
        results = reply["results"]
        assert [r["index"] for r in results] == list(range(11))
        errors = {r["index"]: r["error"] for r in results if r["status"] == "error"}
        assert "1048576 characters; the limit is 8000" in errors[3]
        assert "content is empty" in errors[4]
        assert "content is empty" in errors[5]
        assert "content is empty" in errors[6]
        assert "not an object" in errors[9]
        assert results[0]["memory"]["content"] == "r62 nul  inside"
        assert results[0]["memory"]["tags"] == ["r62", "tag"]
        assert results[1]["memory"]["content"] == ZWJ
        assert results[2]["memory"]["content"] == RTL
        assert results[10]["memory"]["metadata"] == {"k": "v"}
        assert any(note.startswith("4 characters that Postgres") for note in reply["notes"])
        listed = {memory["content"] for memory in await agent.listed(tags=["r62"])}
        assert {"r62 nul  inside", ZWJ, RTL, "r62 plain"} <= listed


@pytest.mark.parametrize("version", [None, "2025-11-25", "2026-07-28"])
def test_r62_a_lone_surrogate_in_the_body_is_removed_and_told(
    local: ServerProcess, version: str | None
) -> None:
    name = f"r62 lone {version}"
    call = tool_call("save_memory", memories=[{"content": f"{name} ABC"}, {"content": "r62 next"}])
    headers = {}
    if version is not None:
        headers["mcp_protocol_version"] = version
    if version == "2026-07-28":
        call["params"]["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers |= {"mcp_method": "tools/call", "mcp_name": "save_memory"}
    # one alone, one at the end, a pair, a reversed pair, and an escaped backslash before a u
    text = rb"A\ud800B\uDC00C \ud83d\ude00 \ude00\ud83d \\ud800"
    body = json.dumps(call).encode().replace(b"ABC", text)
    reply = structured(post(local, body, **headers))
    assert reply["results"][0]["memory"]["content"] == f"{name} ABC 😀  \\ud800"
    assert reply["results"][1]["status"] in ("saved", "reinforced")
    assert any(note.startswith("4 characters that Postgres") for note in reply["notes"])


def test_r62_unstorable_characters_in_any_argument_are_removed(local: ServerProcess) -> None:
    for call in (
        tool_call("search_memories", query="r62\u0000 x", tags=["a\u0000"], cursor=""),
        tool_call("list_memories", tags=["r62\u0000"], memory_type=["fact\u0000"]),
        tool_call("forget_memory", tags=["r62-nothing\u0000"], dry_run=True),
    ):
        reply = structured(post(local, call))
        assert any("were removed" in note for note in reply["notes"])


async def test_r33_an_unknown_type_is_an_error_that_names_it(local: ServerProcess) -> None:
    async with connected(local) as agent:
        for tool, arguments in (
            ("search_memories", {"query": "x", "memory_type": "prefernces"}),
            ("list_memories", {"memory_type": ["prefernces"]}),
            ("forget_memory", {"memory_type": "prefernces", "dry_run": True}),
            ("save_memory", {"content": "r33 x", "memory_type": "prefernces"}),
        ):
            words = await agent.refused(tool, **arguments)
            assert "'prefernces'" in words
            assert "user_preference" in words


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("search_memories", {"query": ""}, "query is empty"),
        ("search_memories", {"query": "  \n"}, "query is empty"),
        ("search_memories", {"query": "x", "limit": 0}, "limit is not between 1 and 1000"),
        ("search_memories", {"query": "x", "limit": 10**12}, "limit is not between 1 and 1000"),
        ("search_memories", {"query": "x", "limit": -(10**12)}, "limit is not between 1 and"),
        ("search_memories", {"query": "x", "limit": "many"}, "limit"),
        ("search_memories", {"query": "x", "cursor": "nonsense"}, "cursor"),
        ("search_memories", {}, "query"),
        ("list_memories", {"limit": 1001}, "limit is not between 1 and 1000"),
        ("list_memories", {"cursor": "nonsense"}, "cursor"),
        ("save_memory", {"content": "x" * 8001}, "8001 characters; the limit is 8000"),
        ("save_memory", {}, "content is empty"),
        ("save_memory", {"content": "y", "tags": ["t" * 65]}, "64 characters"),
        ("save_memory", {"content": "y", "tags": [str(n) for n in range(33)]}, "limit is 32"),
        ("save_memory", {"content": "y", "metadata": {"k": "v" * 20000}}, "16384"),
        ("save_memory", {"content": "y", "confidence": 1.5}, "between 0 and 1"),
        ("save_memory", {"content": "y", "source": "oracle"}, "'oracle'"),
        ("save_memory", {"content": "y", "occurred_at": "soon"}, "'soon'"),
        ("save_memory", {"memories": []}, "nothing to save"),
        ("save_memory", {"memories": [{"content": "z"}] * 101}, "the limit is 100"),
        ("save_memory", {"content": "y", "memories": [{"content": "z"}]}, "either memories or"),
        ("update_memory", {"memory_id": "7"}, "not an id: '7'"),
        ("update_memory", {"memory_id": NO_ID, "version": 10**12}, f"no memory {NO_ID}"),
        ("forget_memory", {}, "which memories"),
        ("forget_memory", {"days_older_than": -1}, "negative"),
        ("forget_memory", {"days_older_than": 1e300, "dry_run": True}, ""),
    ],
)
async def test_a_refusal_says_what_is_wrong(
    local: ServerProcess, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with connected(local) as agent:
        result = await agent.client.call_tool(tool, arguments)
        text = "".join(getattr(block, "text", "") for block in result.content)
        assert result.is_error or not words, text
        assert words in text
        assert "SQLSTATE" not in text
        assert "Traceback" not in text


async def test_forgetting_by_condition_spares_protected_types_and_can_be_tried_first(
    local: ServerProcess,
) -> None:
    async with connected(local) as agent:
        for number, kind in enumerate(("fact", "plan", "user_preference", "summary")):
            await agent.save(f"bulk number {number}", memory_type=kind, tags=["bulk"])
        tried = await agent.call("forget_memory", tags=["bulk"], dry_run=True)
        assert (tried["forgotten"], tried["would_forget"]) == (0, 2)
        assert len(await agent.listed(tags=["bulk"])) == 4
        done = await agent.call("forget_memory", tags=["bulk"])
        assert (done["forgotten"], done["would_forget"]) == (2, 0)
        assert {m["memory_type"] for m in done["memories"]} == {"fact", "plan"}
        left = {memory["memory_type"] for memory in await agent.listed(tags=["bulk"])}
        assert left == {"user_preference", "summary"}


async def test_a_reply_has_one_shape_and_every_memory_says_why_it_came(
    local: ServerProcess, mode: str
) -> None:
    async with connected(local, mode=mode) as agent:
        await agent.save("shape the lighthouse keeper is called Ines")
        plain = await agent.call("search_memories", query="lighthouse keeper")
        assert list(plain) == ["memories", "searched", "notes", "next_cursor"]
        assert plain["searched"]["user"] == "local"
        assert plain["searched"]["agent"] == "default"
        assert plain["searched"]["arms"] == ["keywords", "vector"]
        assert all(memory["why"] for memory in plain["memories"])
        assert "lighthous" in plain["memories"][0]["why"]
        assert "arms" not in plain["memories"][0]
        explained = await agent.call("search_memories", query="lighthouse keeper", explain=True)
        assert set(explained["memories"][0]["arms"]) >= {"keyword", "vector"}
        listed = await agent.call("list_memories", limit=1)
        assert list(listed) == ["memories", "searched", "notes", "next_cursor"]
        assert listed["next_cursor"]


async def test_nothing_found_says_where_was_searched(local: ServerProcess) -> None:
    async with connected(local) as agent:
        reply = await agent.call("search_memories", query="anything", tags=["no such tag"])
        assert reply["memories"] == []
        assert any("agent default of user local" in note for note in reply["notes"])
        assert reply["searched"]["filters"]["tags"] == ["no such tag"]


def estimated(memories: list[dict[str, Any]], database: TestDatabase) -> int:
    with psycopg.connect(database.server) as connection:
        row = connection.execute(
            "select memory.estimate_tokens(%s)", (json.dumps(memories, ensure_ascii=False),)
        ).fetchone()
    assert row
    return int(row[0])


async def test_a_reply_stays_small_and_its_cursor_leads_through_the_rest(
    local: ServerProcess, local_database: TestDatabase
) -> None:
    async with connected(local) as agent:
        items = [
            {"content": f"page chapter {n} " + "lorem ipsum dolor " * 100, "tags": ["page"]}
            for n in range(25)
        ]
        await agent.call("save_memory", memories=items)
        for tool, query in (("search_memories", {"query": "lorem chapter"}), ("list_memories", {})):
            arguments: dict[str, Any] = {"tags": ["page"], "limit": 100, **query}
            seen: list[str] = []
            pages = 0
            while True:
                reply = await agent.call(tool, **arguments)
                pages += 1
                assert reply["memories"]
                assert estimated(reply["memories"], local_database) <= 6000
                seen += [memory["id"] for memory in reply["memories"]]
                if reply["next_cursor"] is None:
                    break
                arguments["cursor"] = reply["next_cursor"]
            assert pages >= 3
            assert len(seen) == len(set(seen)) == 25


async def test_recent_context_is_the_newest_five_and_never_a_summary(
    tokens: ServerProcess, token: Callable[..., str], shared_database: TestDatabase
) -> None:
    items: list[dict[str, Any]] = [
        {"content": f"recent day {day}", "occurred_at": f"2026-02-0{day}"} for day in range(1, 8)
    ]
    items += [
        {
            "content": f"summary {day}",
            "memory_type": "summary",
            "occurred_at": f"2026-03-0{day}",
        }
        for day in range(1, 8)
    ]
    preference = {"content": "answer briefly", "memory_type": "user_preference"}
    items.append({**preference, "occurred_at": "2026-01-01"})
    async with connected(tokens, token("recent")) as agent:
        await agent.call("save_memory", memories=items)
        recent = await agent.read("memory://recent_context")
        assert [m["content"] for m in recent] == [f"recent day {d}" for d in (7, 6, 5, 4, 3)]
        preferences = await agent.read("memory://user_preferences")
        assert [m["content"] for m in preferences] == ["answer briefly"]
        # what a search returns counts as use; what is listed or read does not
        await agent.listed()
        (found,) = await agent.search("recent day 3", limit=1)

    def used() -> list[tuple[str, int]]:
        with psycopg.connect(shared_database.dba) as dba:
            return dba.execute(
                "select memory_id::text, uses from memory.usage where user_id = 'recent'"
            ).fetchall()

    wait_until(used, 20, "the uses to be written")
    assert used() == [(found["id"], 1)]


async def test_resources_are_listed_and_a_memory_is_a_template(
    local: ServerProcess, mode: str
) -> None:
    async with connected(local, mode=mode) as agent:
        resources = (await agent.client.list_resources()).resources
        assert {str(r.uri) for r in resources} == {
            "memory://user_preferences",
            "memory://recent_context",
        }
        templates = (await agent.client.list_resource_templates()).resource_templates
        assert [t.uri_template for t in templates] == ["memory://memories/{memory_id}"]
        assert "no memory nonsense" in await agent.unreadable("memory://memories/nonsense")


GOLDEN = Path(__file__).parents[1] / "golden" / "tools.json"


async def test_the_tools_are_as_agreed(local: ServerProcess, mode: str) -> None:
    """MEMPHANT_UPDATE_GOLDEN=1 writes the file anew; read the difference before you commit it."""
    async with connected(local, mode=mode) as agent:
        tools = (await agent.client.list_tools()).tools
    listed = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    text = json.dumps(listed, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if os.environ.get("MEMPHANT_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_the_tools_cost_a_prompt_little() -> None:
    tools = json.loads(GOLDEN.read_text())
    spoken = [{k: v for k, v in tool.items() if k != "outputSchema"} for tool in tools]
    assert len(json.dumps(spoken, ensure_ascii=False).encode()) <= 8192
    outputs = [tool["outputSchema"] for tool in tools]
    assert len(json.dumps(outputs, ensure_ascii=False).encode()) <= 8192


def test_annotations_tell_readers_from_writers() -> None:
    tools = {tool["name"]: tool for tool in json.loads(GOLDEN.read_text())}
    assert list(tools)[:2] == ["save_memory", "search_memories"]
    readers = {"search_memories", "list_memories", "memory_history"}
    for name, tool in tools.items():
        annotations = tool["annotations"]
        assert annotations["readOnlyHint"] is (name in readers)
        assert annotations["openWorldHint"] is False
        assert tool["inputSchema"]["additionalProperties"] is False
        assert not {"user_id", "agent_id", "user", "agent"} & set(tool["inputSchema"]["properties"])
    assert tools["save_memory"]["annotations"]["destructiveHint"] is False
    assert tools["forget_memory"]["annotations"]["destructiveHint"] is True
