"""The identity that a function sets ends with it, whatever happens."""

from collections.abc import Callable

import pytest
from tests.sql.calling import Caller, refused, scalar

IDENTITY = (
    "select current_setting('memory.user_id', true), current_setting('memory.agent_id', true)"
)


CALLS: dict[str, Callable[[Caller, object], object]] = {
    "save": lambda who, _: who.save("more"),
    "save_list": lambda who, _: who.save_list("more", {}),
    "search": lambda who, _: who.search("one"),
    "search_reply": lambda who, _: who.reply("search_reply", query="one"),
    "list": lambda who, _: who.contents(),
    "list_reply": lambda who, _: who.reply("list_reply"),
    "get": lambda who, given: who.reply("get", memory_id=given),
    "update": lambda who, given: who.reply("update", memory_id=given, content="changed"),
    "forget": lambda who, given: who.call("forget", memory_id=given),
    "dry_run": lambda who, given: who.call("forget", memory_id=given, dry_run=True),
    "forget_reply": lambda who, given: who.reply("forget_reply", memory_id=given),
    "history": lambda who, given: who.call("history", memory_id=given),
    "set_user": lambda who, _: who.call("set_user"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_puts_back_the_identity_that_it_found(filled: Caller, name: str) -> None:
    given = filled.save("given")["id"]
    connection = filled.connection
    with connection.transaction():
        CALLS[name](filled, given)
        assert connection.execute(IDENTITY).fetchone() in [("", ""), (None, None)]
        assert scalar(connection, "select count(*) from memory.memories") == 0


@pytest.mark.parametrize("name", CALLS)
def test_an_identity_that_was_set_before_is_still_there_afterwards(
    filled: Caller, name: str
) -> None:
    given = filled.save("given")["id"]
    connection = filled.connection
    with connection.transaction():
        connection.execute("select set_config('memory.user_id', 'caller', true)")
        connection.execute("select set_config('memory.agent_id', 'mine', true)")
        CALLS[name](filled, given)
        assert connection.execute(IDENTITY).fetchone() == ("caller", "mine")


def test_an_error_in_a_savepoint_leaves_no_identity_behind(filled: Caller) -> None:
    nothing = "00000000-0000-7000-8000-000000000000"
    connection = filled.connection
    failing: list[tuple[str, Callable[[], object]]] = [
        ("MP003", lambda: filled.reply("get", memory_id=nothing)),
        ("MP003", lambda: filled.reply("update", memory_id=nothing, content="x")),
        ("MP005", lambda: filled.search("")),
        ("MP005", lambda: filled.save("")),
        ("MP006", lambda: filled.contents(memory_types=["nonsense"])),
        ("MP010", lambda: filled.call("forget")),
    ]
    with connection.transaction():
        for code, act in failing:
            with refused(code), connection.transaction():
                act()
            assert connection.execute(IDENTITY).fetchone() in [("", ""), (None, None)]
            assert scalar(connection, "select count(*) from memory.memories") == 0
