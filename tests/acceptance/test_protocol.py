"""The protocol: both eras over HTTP, stdio, and what clients do that is not in the book."""

import json

import pytest
from tests.acceptance.conftest import (
    ServerProcess,
    connected,
    post,
    request,
    tool_call,
)


async def test_r17_what_was_saved_is_found_by_its_word_and_forgotten_by_its_id(
    local: ServerProcess, mode: str
) -> None:
    async with connected(local, mode=mode) as agent:
        marker = f"zq17{mode}"
        text = f"The rack code of the archive is {marker}."
        saved = await agent.save(text)
        found = await agent.search(marker)
        assert [m["content"] for m in found[:1]] == [text]
        assert found[0]["id"] == saved["id"]
        assert (await agent.read(f"memory://memories/{saved['id']}"))["content"] == text
        gone = await agent.call("forget_memory", memory_id=found[0]["id"])
        assert gone["forgotten"] == 1
        assert text not in await agent.contents(marker)
        assert saved["id"] in await agent.unreadable(f"memory://memories/{saved['id']}")


async def test_r03_a_tool_call_before_the_handshake_is_answered_over_http(
    local: ServerProcess,
) -> None:
    post(local, tool_call("save_memory", content="marker r03early stands here"))
    answer = post(local, tool_call("search_memories", query="r03early")).json()
    found = answer["result"]["structuredContent"]["memories"]
    assert found[0]["content"] == "marker r03early stands here"


@pytest.mark.parametrize(
    "session",
    [
        {},
        {"mcp_session_id": "5b2d7c7e0f0c4f7f9c4d2f8d3c1b2a90"},
        {"mcp_protocol_version": "2025-11-25"},
    ],
)
def test_r32_a_notification_is_answered_with_202_and_an_empty_body(
    local: ServerProcess, session: dict[str, str]
) -> None:
    for body in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 99, "reason": "over"},
        },
    ):
        answer = post(local, body, **session)
        assert (answer.status_code, answer.content) == (202, b"")


def test_r32_a_notification_of_the_era_without_sessions_is_answered_with_202(
    local: ServerProcess,
) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
    answer = post(local, body, mcp_protocol_version="2026-07-28")
    assert (answer.status_code, answer.content) == (202, b"")


def test_a_body_that_is_no_json_is_a_clear_error(local: ServerProcess) -> None:
    answer = post(local, b'{"jsonrpc": "2.0", "id": 1')
    assert answer.status_code == 400
    assert "Parse error" in answer.json()["error"]["message"]


def test_an_unknown_method_is_an_error_that_names_it(local: ServerProcess) -> None:
    answer = post(local, request("memories/everything"))
    assert answer.json()["error"]["code"] == -32601


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8077", "127.0.0.1.evil.example"])
def test_a_foreign_host_header_is_refused(local: ServerProcess, host: str) -> None:
    answer = post(local, tool_call("list_memories"), host=host)
    assert answer.status_code == 421
    assert "memories" not in answer.text


def test_a_foreign_origin_is_refused(local: ServerProcess) -> None:
    answer = post(local, tool_call("list_memories"), origin="https://evil.example")
    assert answer.status_code == 403


def test_every_answer_names_its_request(local: ServerProcess) -> None:
    answer = post(local, tool_call("list_memories", limit=1))
    name = answer.headers["x-request-id"]
    assert local.wait_event("list", request=name)["ms"] > 0
    assert json.loads(answer.text)["id"] == 1
