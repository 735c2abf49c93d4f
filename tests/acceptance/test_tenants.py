"""Users and agents: who sees what, and that only a token says who calls."""

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from tests.acceptance.conftest import (
    Agent,
    NewDatabase,
    Serve,
    ServerProcess,
    connected,
    make_token,
    post,
    request,
    run,
    text_of,
    tool_call,
    urls,
)
from tests.conftest import TestDatabase

Token = Callable[..., str]


@pytest.mark.parametrize("given", [None, "mph_unknown", "mph_" + "A" * 43, "first"])
def test_without_a_token_in_force_nothing_is_told(tokens: ServerProcess, given: str | None) -> None:
    for body in (
        tool_call("list_memories"),
        tool_call("save_memory", content="intruder r-none"),
        request("tools/list"),
        request("resources/read", uri="memory://recent_context"),
        request("server/discover"),
    ):
        answer = post(tokens, body, given)
        assert answer.status_code == 401
        assert "www-authenticate" in answer.headers
        assert not {"first", "memories", "tools", "save_memory"} & set(answer.text.split('"'))
    assert post(tokens, tool_call("list_memories"), authorization="Basic bXBo").status_code == 401


def test_a_revocation_works_with_the_next_request(
    tokens: ServerProcess, shared_database: TestDatabase, token: Token
) -> None:
    kept, ended = token("rev"), token("rev", "ended")
    assert post(tokens, tool_call("list_memories"), ended).status_code == 200
    listed = run("token", "list", **urls(shared_database)).stdout
    (line,) = [line for line in listed.splitlines() if "rev / ended" in line]
    assert "in force" in line
    assert ended not in listed
    revoked = run("token", "revoke", line.split()[0], **urls(shared_database))
    assert revoked.returncode == 0, revoked.stderr
    assert post(tokens, tool_call("list_memories"), ended).status_code == 401
    assert post(tokens, tool_call("list_memories"), kept).status_code == 200


async def test_r20_metadata_that_names_another_user_is_plain_data(
    tokens: ServerProcess, token: Token
) -> None:
    claim = {"user_id": "r20b", "agent_id": "bot", "userId": "r20b", "shared": True}
    async with (
        connected(tokens, token("r20a")) as mine,
        connected(tokens, token("r20b")) as other,
    ):
        saved = await mine.save("r20 the vault opens at nine", metadata=claim)
        assert saved["metadata"] == claim
        updated = await mine.call("update_memory", memory_id=saved["id"], metadata=claim)
        assert updated["memory"]["agent"] == "bot"
        assert updated["memory"]["shared"] is False
        assert [m["id"] for m in await mine.listed()] == [saved["id"]]
        assert await other.search("r20 vault") == []
        assert await other.listed() == []


def test_identity_never_comes_from_arguments_headers_or_meta(
    tokens: ServerProcess, token: Token
) -> None:
    alice, eve = token("ida"), token("ide")
    post(tokens, tool_call("save_memory", content="ida keeps bees"), alice)
    for name in ("user_id", "agent_id", "user", "agent"):
        words = post(tokens, tool_call("list_memories", **{name: "ida"}), eve).json()["result"]
        assert words["isError"]
        assert f"unknown argument '{name}'" in words["content"][0]["text"]
    call = tool_call("search_memories", query="bees")
    call["params"]["_meta"] = {"user_id": "ida", "agent_id": "bot", "memphant/user": "ida"}
    answer = post(tokens, call, eve, x_user_id="ida", x_memphant_user="ida", x_forwarded_user="ida")
    reply = answer.json()["result"]["structuredContent"]
    assert reply["memories"] == []
    assert reply["searched"]["user"] == "ide"
    words = post(
        tokens,
        tool_call("save_memory", memories=[{"content": "ide was here", "user_id": "ida"}]),
        eve,
    ).json()["result"]["structuredContent"]["results"]
    assert "user_id" in words[0]["error"]


@pytest.mark.parametrize(
    ("one", "two"),
    [("acme", "acme-corp"), ("john_doe", "john-doe"), ("%", "percent"), ("Ann", "ann")],
)
async def test_r19_users_with_like_names_see_nothing_of_each_other(
    tokens: ServerProcess, token: Token, one: str, two: str
) -> None:
    for mine, other in ((one, two), (two, one)):
        async with connected(tokens, token(mine)) as agent:
            await agent.save(f"r19 secret of {mine}", shared=True)
        async with connected(tokens, token(other)) as agent:
            assert f"r19 secret of {mine}" not in await agent.contents("r19 secret", limit=50)
            assert f"r19 secret of {mine}" not in [m["content"] for m in await agent.listed()]


@pytest.mark.parametrize("user", ["", "  "])
def test_r19_an_empty_user_is_an_error(shared_database: TestDatabase, user: str) -> None:
    made = run("token", "create", "--user", user, "--agent", "bot", **urls(shared_database))
    assert made.returncode == 1
    assert "user_id is missing" in made.stderr
    assert made.stdout == ""


async def test_r22_what_is_written_in_one_scope_is_only_there(
    tokens: ServerProcess, token: Token
) -> None:
    async with (
        connected(tokens, token("r22x")) as x,
        connected(tokens, token("r22y")) as y,
    ):
        await y.save("r22 y exists")
        saved = await x.save("r22 the boat is red", tags=["r22"])
        assert await y.contents("r22 boat red", tags=["r22"]) == []
        assert await y.listed(tags=["r22"]) == []
        assert "no memory" in await y.unreadable(f"memory://memories/{saved['id']}")
        assert (await y.call("forget_memory", tags=["r22"]))["forgotten"] == 0
        assert "no memory" in await y.refused("forget_memory", memory_id=saved["id"])
        assert (await x.contents("r22 boat red")) == ["r22 the boat is red"]
        assert [m["id"] for m in await x.listed(tags=["r22"])] == [saved["id"]]
        assert (await x.read(f"memory://memories/{saved['id']}"))["id"] == saved["id"]
        assert (await x.call("forget_memory", tags=["r22"]))["forgotten"] == 1


async def _tool(agent: Agent, tool: str, /, **arguments: Any) -> str:
    result = await agent.client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


SURFACES: dict[str, Callable[[Agent, str], Awaitable[str]]] = {
    "update_memory": lambda agent, i: _tool(agent, "update_memory", memory_id=i, content="mine"),
    "update_memory tags": lambda agent, i: _tool(agent, "update_memory", memory_id=i, tags=["x"]),
    "update_memory version": lambda agent, i: _tool(agent, "update_memory", memory_id=i, version=1),
    "update_memory restore": lambda agent, i: _tool(
        agent, "update_memory", memory_id=i, restore=True
    ),
    "forget_memory": lambda agent, i: _tool(agent, "forget_memory", memory_id=i),
    "forget_memory dry": lambda agent, i: _tool(agent, "forget_memory", memory_id=i, dry_run=True),
    "forget_memory purge": lambda agent, i: _tool(agent, "forget_memory", memory_id=i, purge=True),
    "memory_history": lambda agent, i: _tool(agent, "memory_history", memory_id=i),
    "memory://memories": lambda agent, i: agent.unreadable(f"memory://memories/{i}"),
}


async def test_r23_a_private_memory_of_somebody_else_is_one_that_does_not_exist(
    tokens: ServerProcess, token: Token, shared_database: TestDatabase, mode: str
) -> None:
    async with connected(tokens, token("r23owner")) as owner:
        mine = await owner.save(f"r23 private marker {mode}", tags=["r23"])
        text = f"r23 forgotten marker {mode}"
        forgotten = await owner.save(text, tags=["r23"])
        await owner.call("forget_memory", memory_id=forgotten["id"])
    with psycopg.connect(shared_database.dba) as dba:
        before = dba.execute("select * from memory.memories where user_id = 'r23owner'").fetchall()
    for user, name in (("r23owner", "second"), ("r23other", "bot")):
        async with connected(tokens, token(user, name), mode) as stranger:
            assert SURFACES.keys() >= {
                t.name
                for t in (await stranger.client.list_tools()).tools
                if "memory_id" in t.input_schema["properties"]
            }
            for surface, attempt in SURFACES.items():
                absent = str(uuid.uuid4())
                unknown = (await attempt(stranger, absent)).replace(absent, "ID")
                for memory in (mine, forgotten):
                    words = await attempt(stranger, memory["id"])
                    assert words.replace(memory["id"], "ID") == unknown, surface
                    assert "no memory ID" in unknown
            assert await stranger.search("r23 private marker") == []
            assert await stranger.search("r23", tags=["r23"]) == []
            assert await stranger.listed(tags=["r23"]) == []
            assert await stranger.read("memory://recent_context") == []
            gone = await stranger.call("forget_memory", days_older_than=0)
            assert gone["forgotten"] == 0
    with psycopg.connect(shared_database.dba) as dba:
        after = dba.execute("select * from memory.memories where user_id = 'r23owner'").fetchall()
    assert after == before


async def test_shared_memories_are_read_by_the_users_other_agents_and_changed_by_none(
    tokens: ServerProcess, token: Token
) -> None:
    sharing = token("shr", "sharing", share_by_default=True)
    async with (
        connected(tokens, sharing) as owner,
        connected(tokens, token("shr", "reader")) as reader,
        connected(tokens, token("shr2", "reader")) as foreign,
    ):
        shared = await owner.save("shr the wifi is called Heron", tags=["shr"])
        private = await owner.save("shr the diary is blue", shared=False, tags=["shr"])
        assert (shared["shared"], private["shared"]) == (True, False)
        found = await reader.search("shr wifi diary", tags=["shr"])
        assert [m["id"] for m in found] == [shared["id"]]
        assert found[0]["agent"] == "sharing"
        assert (await reader.read(f"memory://memories/{shared['id']}"))["id"] == shared["id"]
        for attempt in (
            reader.refused("update_memory", memory_id=shared["id"], content="x"),
            reader.refused("forget_memory", memory_id=shared["id"]),
        ):
            assert "read-only, owned by agent sharing" in await attempt
        assert (await reader.call("forget_memory", tags=["shr"]))["forgotten"] == 0
        words = await foreign.refused("forget_memory", memory_id=shared["id"])
        assert "no memory" in words
        assert "sharing" not in words
        # an agent without the option keeps what it saves to itself
        own = await reader.save("shr the reader likes tea")
        assert own["shared"] is False
        assert own["content"] not in await owner.contents("shr reader likes tea")


async def test_r33_searching_for_an_unknown_user_creates_nothing(
    shared_database: TestDatabase,
) -> None:
    found = run("search", "anything", "--user", "r33-mistyped", **urls(shared_database))
    assert found.returncode == 1
    assert "unknown user 'r33-mistyped'" in found.stderr
    with psycopg.connect(shared_database.dba) as dba:
        users = [u for (u,) in dba.execute("select user_id from memory.users").fetchall()]
    assert "r33-mistyped" not in users


async def test_the_mode_is_fixed_at_start_and_what_local_mode_saved_is_handed_over(
    template: str, new_database: NewDatabase, serve: Serve
) -> None:
    database = new_database(template)
    server = serve(**urls(database))
    async with connected(server) as agent:
        local = await agent.save("handover the spare key hangs in the shed")
        made = run("token", "create", "--user", "olga", "--agent", "default", **urls(database))
        token = made.stdout.strip()
        assert "memphant adopt --to olga" in made.stderr
        # the running server goes on as it was, and pays no attention to tokens
        assert await agent.contents("spare key") == [local["content"]]
    async with connected(server, token) as agent:
        assert (await agent.call("list_memories"))["searched"]["user"] == "local"
    assert server.stop() == 0

    handed = run("adopt", "--to", "olga", **urls(database))
    assert handed.stdout == "1 memories now belong to olga.\n"
    server = serve(**urls(database))
    assert "bearers of a token" in server.stdout
    assert post(server, tool_call("list_memories")).status_code == 401
    async with connected(server, token) as agent:
        found = await agent.search("where is the spare key?")
        assert [m["id"] for m in found] == [local["id"]]
        await agent.call("update_memory", memory_id=local["id"], tags=["key"])

    # revoking the last token opens nothing, neither now nor after a restart
    name = run("token", "list", **urls(database)).stdout.split()[0]
    assert run("token", "revoke", name, **urls(database)).returncode == 0
    assert post(server, tool_call("list_memories"), token).status_code == 401
    assert server.stop() == 0
    server = serve(**urls(database))
    for given in (None, token):
        assert post(server, tool_call("list_memories"), given).status_code == 401


def test_only_a_server_with_tokens_listens_beyond_this_machine(
    template: str, new_database: NewDatabase, serve: Serve
) -> None:
    database = new_database(template)
    refused = serve(ready=False, host="0.0.0.0", **urls(database))
    assert refused.process.wait(60) == 1
    assert "Listening on 0.0.0.0 would open the memories" in refused.log
    assert "memphant token create" in refused.log
    token = make_token(database, "net", "bot")
    server = serve(host="0.0.0.0", allowed_hosts='["memory.test"]', **urls(database))
    body = tool_call("list_memories")
    assert post(server, body).status_code == 401
    assert post(server, body, token).status_code == 200
    assert post(server, body, token, host="memory.test").status_code == 200
    assert post(server, body, token, host="memory.test:443").status_code == 200
    assert post(server, body, token, host="evil.test").status_code == 421
    assert json.loads(post(server, body, token).text)["result"]["structuredContent"]
