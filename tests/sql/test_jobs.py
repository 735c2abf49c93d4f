"""What works across users: vectors for what has none, and uses."""

from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.sql.calling import Caller, Row, call, scalar, together, vector


@pytest.fixture(autouse=True)
def nothing_waits(server: psycopg.Connection) -> None:
    """Every test begins with an empty queue."""
    claim(server, 100_000)


def claim(connection: psycopg.Connection, max_rows: int = 100) -> list[Row]:
    """What one worker is given."""
    return call(connection, "claim_unembedded", max_rows=max_rows)


def store(connection: psycopg.Connection, row: Row, embedding: str) -> bool:
    """Gives a claimed memory its vector."""
    given = {name: row[name] for name in ("user_id", "memory_id", "version")}
    return bool(
        call(connection, "store_embedding", embedding=embedding, **given)[0]["store_embedding"]
    )


def waiting(dba: psycopg.Connection, user: str) -> int:
    """How many memories of a user are in the queue."""
    return int(scalar(dba, "select count(*) from memory.embedding_queue where user_id = %s", user))


def test_what_is_saved_without_a_vector_is_claimed_embedded_and_then_found_by_it(
    bot: Caller, dba: psycopg.Connection
) -> None:
    saved = bot.save("```\nhello there\n```")
    bot.save("with one", embedding=vector(0, 1))
    (row,) = claim(bot.connection)
    assert (row["user_id"], row["memory_id"]) == (bot.user, saved["id"])
    assert (row["version"], row["attempts"]) == (1, 1)
    assert row["text"].strip() == "hello there"
    assert store(bot.connection, row, vector(1))
    assert waiting(dba, bot.user) == 0
    assert bot.found("unrelated", embedding=vector(1))[0] == "```\nhello there\n```"


def test_no_two_workers_claim_the_same_memory(bot: Caller) -> None:
    bot.save_list(*[f"waiting {n}" for n in range(100)])

    def claim_twice(connection: psycopg.Connection, _: int) -> list[Row]:
        return claim(connection, 10) + claim(connection, 5)

    claimed = together(bot.connection.info.dsn, 8, claim_twice)
    ids = [row["memory_id"] for rows in claimed for row in rows]
    assert len(ids) == len(set(ids)) == 100


def test_a_lease_ends_and_the_memory_is_given_to_another_worker(
    bot: Caller, owner: psycopg.Connection
) -> None:
    bot.save("waiting")
    statement = "update memory.settings set value = %s where name = 'worker.lease_seconds'"
    owner.execute(statement, (Jsonb(0),))
    try:
        assert [row["attempts"] for row in claim(bot.connection)] == [1]
        assert [row["attempts"] for row in claim(bot.connection)] == [2]
    finally:
        owner.execute(statement, (None,))
    assert len(claim(bot.connection)) == 1
    assert claim(bot.connection) == []


def test_a_vector_of_an_older_version_is_not_stored(bot: Caller, dba: psycopg.Connection) -> None:
    saved = bot.save("the old text")
    (row,) = claim(bot.connection)
    bot.reply("update", memory_id=saved["id"], content="the new text")
    assert not store(bot.connection, row, vector(1))
    assert bot.search("unrelated", embedding=vector(1)) == []
    (row,) = claim(bot.connection)
    assert row["text"] == "the new text"
    assert store(bot.connection, row, vector(1))
    assert bot.found("unrelated", embedding=vector(1)) == ["the new text"]
    assert waiting(dba, bot.user) == 0


def test_a_vector_of_a_forgotten_or_unknown_memory_is_not_brought_back(
    bot: Caller, dba: psycopg.Connection
) -> None:
    saved = bot.save("soon forgotten")
    (row,) = claim(bot.connection)
    bot.call("forget", memory_id=saved["id"])
    store(bot.connection, row, vector(1))
    assert bot.search("unrelated", embedding=vector(1)) == []
    assert not store(bot.connection, {**row, "memory_id": uuid4()}, vector(1))
    assert waiting(dba, bot.user) == 0


def test_a_vector_of_other_dimensions_is_refused(bot: Caller) -> None:
    bot.save("waiting")
    (row,) = claim(bot.connection)
    with pytest.raises(psycopg.Error) as caught:
        store(bot.connection, row, vector(1, dimensions=768))
    assert caught.value.sqlstate == "MP007"


def test_a_failed_memory_waits_and_keeps_the_reason(bot: Caller, dba: psycopg.Connection) -> None:
    bot.save("waiting")
    (row,) = claim(bot.connection)
    named = {"user_id": row["user_id"], "memory_id": row["memory_id"], "error": "x" * 300}
    call(bot.connection, "postpone_embedding", seconds=3600.0, **named)
    assert claim(bot.connection) == []
    reason = scalar(
        dba, "select last_error from memory.embedding_queue where user_id = %s", bot.user
    )
    assert len(reason) == 200
    call(bot.connection, "postpone_embedding", seconds=0.0, **named)
    assert [again["attempts"] for again in claim(bot.connection)] == [2]


def test_uses_are_counted_across_users_and_agents(
    bot: Caller, dba: psycopg.Connection, user: str
) -> None:
    other = bot.other(user=f"{user}-b")
    mine, theirs = bot.save("mine")["id"], other.save("theirs")["id"]
    uses = [
        {"user_id": bot.user, "memory_id": str(mine), "uses": 2},
        {"user_id": other.user, "memory_id": str(theirs), "uses": 1},
        {"user_id": bot.user, "memory_id": str(mine), "uses": 3},
        {"user_id": bot.user, "memory_id": str(theirs), "uses": 7},
        {"user_id": bot.user, "memory_id": str(uuid4()), "uses": 7},
    ]
    for _ in range(2):
        call(bot.connection, "record_uses", uses=Jsonb(uses))
    counts = dba.execute(
        "select memory_id, uses from memory.usage where user_id in (%s, %s)", (bot.user, other.user)
    ).fetchall()
    assert dict(counts) == {mine: 10, theirs: 2}


def test_counting_uses_changes_no_memory(bot: Caller) -> None:
    saved = bot.save("mine")
    uses = [{"user_id": bot.user, "memory_id": str(saved["id"]), "uses": 1}]
    call(bot.connection, "record_uses", uses=Jsonb(uses))
    assert bot.reply("get", memory_id=saved["id"]) == saved["memory"]
