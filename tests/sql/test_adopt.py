"""Adoption: everything of one user is handed to another, and nothing is lost."""

import psycopg
import pytest
from tests.sql.calling import Caller, call, partition_mate, refused, scalar, vector

TABLES = ("memories", "words", "usage", "requests", "embedding_queue", "conversations", "versions")


def count(dba: psycopg.Connection, table: str, user: str) -> int:
    """Rows of a user in a table."""
    return int(scalar(dba, f"select count(*) from memory.{table} where user_id = %s", user))


@pytest.fixture(params=["in one partition", "in two partitions"])
def heir(request: pytest.FixtureRequest, bot: Caller) -> Caller:
    """Who takes over, with a memory and a conversation of the same names."""
    mate = partition_mate(bot.connection, bot.user, together=request.param == "in one partition")
    heir = bot.other(user=mate)
    heir.save("both know this", conversation_id="talk")
    heir.save("only the heir", conversation_id="talk")
    return heir


@pytest.fixture
def left(bot: Caller) -> Caller:
    """What was saved before the first token."""
    bot.save("both know this", conversation_id="talk")
    bot.save("from the past", conversation_id="talk", tags=["past"], embedding=vector(1))
    bot.save("of a peer", shared=True)
    bot.other(agent="peer").save("private to the peer")
    for _ in range(2):
        changed = bot.save("to be changed", idempotency_key="k")
    bot.save("to be changed")
    bot.reply("update", memory_id=changed["id"], content="changed")
    return bot


def adopt(owner: psycopg.Connection, from_user: str, to_user: str) -> int:
    """How many memories changed hands."""
    rows = call(owner, "adopt", from_user=from_user, to_user=to_user)
    return int(rows[0]["rows"])


def test_everything_moves_and_is_found_by_words_vectors_and_tags(
    left: Caller, heir: Caller, owner: psycopg.Connection, dba: psycopg.Connection
) -> None:
    assert adopt(owner, left.user, heir.user) == 5
    assert {table: count(dba, table, left.user) for table in TABLES} == dict.fromkeys(TABLES, 0)
    assert sorted(heir.contents()) == [
        "both know this",
        "changed",
        "from the past",
        "of a peer",
        "only the heir",
    ]
    assert heir.found("past")[0] == "from the past"
    assert heir.found("unrelated", tags=["past"], embedding=vector(1)) == ["from the past"]
    assert "private to the peer" in heir.other(agent="peer").contents()
    assert left.contents() == []
    assert left.search("past") == []


def test_a_text_that_both_hold_stays_once_and_the_other_is_archived(
    left: Caller, heir: Caller, owner: psycopg.Connection, dba: psycopg.Connection
) -> None:
    adopt(owner, left.user, heir.user)
    states = dba.execute(
        """select state from memory.memories
        where user_id = %s and content = 'both know this' order by state""",
        (heir.user,),
    ).fetchall()
    assert states == [("active",), ("archived",)]
    assert heir.save("both know this")["status"] == "reinforced"


def test_words_follow_their_memories(
    left: Caller, heir: Caller, owner: psycopg.Connection, dba: psycopg.Connection
) -> None:
    adopt(owner, left.user, heir.user)
    without = scalar(
        dba,
        """select count(*) from memory.words as w where w.user_id in (%s, %s) and not exists (
            select from memory.memories as m
            where m.user_id = w.user_id and m.place = w.place and m.state = 'active')""",
        left.user,
        heir.user,
    )
    missing = scalar(
        dba,
        """select count(*) from memory.memories as m, unnest(tsvector_to_array(m.keywords)) as word
        where m.user_id = %s and m.state = 'active' and not exists (
            select from memory.words as w
            where w.user_id = m.user_id and w.place = m.place and w.word = word)""",
        heir.user,
    )
    assert (without, missing) == (0, 0)


def test_places_stay_unique_and_the_conversation_goes_on(
    left: Caller, heir: Caller, owner: psycopg.Connection, dba: psycopg.Connection
) -> None:
    adopt(owner, left.user, heir.user)
    heir.save("a further turn", conversation_id="talk")
    left.save("a new life", conversation_id="talk")
    places = dba.execute(
        "select place from memory.memories where user_id in (%s, %s)", (heir.user, left.user)
    ).fetchall()
    assert len(places) == len(set(places)) == 9
    assert adopt(owner, left.user, heir.user) == 1
    assert "a new life" in heir.contents()


def test_history_moves_along(left: Caller, heir: Caller, owner: psycopg.Connection) -> None:
    (changed,) = [row for row in left.call("list") if row["content"] == "changed"]
    before = left.call("history", memory_id=changed["id"])
    adopt(owner, left.user, heir.user)
    assert heir.call("history", memory_id=changed["id"]) == before
    assert len(before) > 1


@pytest.mark.parametrize(
    ("code", "from_user", "to_user"),
    [
        ("MP002", "nobody", "{me}"),
        ("MP002", "{me}", "nobody"),
        ("MP005", "{me}", "{me}"),
        ("MP001", "", "{me}"),
        ("MP001", "{me}", None),
    ],
)
def test_an_adoption_that_cannot_be_meant_is_refused(
    bot: Caller, owner: psycopg.Connection, code: str, from_user: str, to_user: str | None
) -> None:
    bot.save("kept")
    names = [name and name.replace("{me}", bot.user) for name in (from_user, to_user)]
    with refused(code):
        call(owner, "adopt", from_user=names[0], to_user=names[1])
    assert bot.contents() == ["kept"]
