"""Users are kept apart by their exact names, and exist before they are read."""

import psycopg
import pytest
from tests.sql.calling import Caller, refused, scalar


@pytest.mark.parametrize(
    ("one", "two"),
    [("acme", "acme-corp"), ("john_doe", "john-doe"), ("Kim", "kim"), ("zoë", "zoe"), ("%", "any")],
)
def test_r19_users_with_similar_names_see_nothing_of_each_other(
    server: psycopg.Connection, one: str, two: str
) -> None:
    for name in (one, two):
        Caller(server, name).save(f"the secret word of this one is {name.encode().hex()}")
    for name in (one, two):
        mine = [f"the secret word of this one is {name.encode().hex()}"]
        assert Caller(server, name).found("secret word") == mine
        assert Caller(server, name).contents() == mine
        row = Caller(server, name).call("forget", days_older_than=0, dry_run=True)
        assert len(row) <= 1


@pytest.mark.parametrize("name", ["", "   ", None])
@pytest.mark.parametrize("which", ["user", "agent"])
def test_r19_an_empty_user_or_agent_is_an_error_everywhere(
    server: psycopg.Connection, which: str, name: str
) -> None:
    Caller(server, "known").save("something")
    caller = Caller(server, "known").other(**{which: name})
    for act in (
        lambda: caller.save("text"),
        lambda: caller.search("text"),
        lambda: caller.contents(),
        lambda: caller.reply("search_reply", query="text"),
        lambda: caller.reply("list_reply"),
        lambda: caller.call("forget", days_older_than=0),
        lambda: caller.reply("get", memory_id="00000000-0000-7000-8000-000000000000"),
        lambda: caller.call("set_user"),
    ):
        with refused("MP001"):
            act()


@pytest.mark.parametrize("metadata", [{"user_id": "other"}, {"user_id": "x", "agent_id": "y"}])
def test_r20_a_user_named_in_metadata_is_plain_data(
    bot: Caller, server: psycopg.Connection, metadata: dict[str, str]
) -> None:
    for name in ("other", "x"):
        Caller(server, name, "y").save(f"{name} has a row as well")
    saved = bot.save("the red car", metadata=metadata)
    assert saved["memory"]["metadata"] == metadata
    assert bot.found("red car") == ["the red car"]
    updated = bot.reply("update", memory_id=saved["id"], metadata={**metadata, "more": 1})
    assert updated["metadata"] == {**metadata, "more": 1}
    assert bot.found("red car") == ["the red car"]
    for name in ("other", "x"):
        for agent in ("bot", "y"):
            assert Caller(server, name, agent).found("red car") == []


def test_r20_user_and_agent_are_no_fields_of_an_item(bot: Caller) -> None:
    for field in ("user_id", "agent_id", "id", "state", "confirmed_at", "place"):
        (row,) = bot.save_list({"content": "text", field: "other"})
        assert (row["status"], row["code"], row["id"]) == ("error", "MP005", None)


def test_r33_a_read_of_an_unknown_user_names_it_and_creates_nothing(
    server: psycopg.Connection, dba: psycopg.Connection
) -> None:
    nobody = Caller(server, "no-such-user")
    for act in (
        lambda: nobody.search("text"),
        lambda: nobody.contents(),
        lambda: nobody.reply("search_reply", query="text"),
        lambda: nobody.reply("list_reply"),
        lambda: nobody.call("forget", days_older_than=0),
        lambda: nobody.reply("get", memory_id="00000000-0000-7000-8000-000000000000"),
    ):
        with refused("MP002") as caught:
            act()
        assert "no-such-user" in str(caught.value)
    count = scalar(dba, "select count(*) from memory.users where user_id = 'no-such-user'")
    assert count == 0


def test_r33_a_new_agent_of_a_known_user_just_has_no_memories(bot: Caller) -> None:
    bot.save("private to the bot")
    assert bot.other(agent="newcomer").contents() == []


def test_a_first_save_creates_the_user_and_set_user_changes_what_is_given(
    bot: Caller, user: str
) -> None:
    bot.save("hello")
    (row,) = bot.call("set_user", time_zone="Asia/Shanghai")
    assert (row["user_id"], row["time_zone"], row["language"]) == (user, "Asia/Shanghai", None)
    (row,) = bot.call("set_user", language="de")
    assert (row["time_zone"], row["language"]) == ("Asia/Shanghai", "de")
    with refused("MP005"):
        bot.call("set_user", time_zone="Mars/Olympus")


def test_no_agent_can_be_called_by_the_mark_of_shared_rows(bot: Caller) -> None:
    for act in (
        lambda: bot.other(agent="*").save("text"),
        lambda: bot.other(agent="*").search("text"),
        lambda: bot.other(agent="*").contents(),
    ):
        with refused("MP005"):
            act()


def test_a_name_that_is_too_long_is_refused_with_the_limit(server: psycopg.Connection) -> None:
    Caller(server, "n" * 128).save("fits")
    with refused("MP005") as caught:
        Caller(server, "n" * 129).save("does not")
    assert "128" in str(caught.value)
