"""Places: the number of the conversation and of the turn, in the order of saving."""

from itertools import pairwise

from tests.sql.calling import Caller, scalar, together, vector

TURNS = 1048576


def places(caller: Caller) -> dict[str, int]:
    """Content to place, for every row of the agent."""
    with caller.connection.transaction():
        caller.identify()
        rows = caller.connection.execute(
            "select content, place from memory.memories where state = 'active'"
        ).fetchall()
    return dict(rows)


def test_turns_of_a_list_follow_each_other_in_its_order(bot: Caller) -> None:
    # texts whose hashes come in another order than the list
    texts = [f"turn {n}" for n in range(30)]
    bot.save_list(*[{"content": text, "conversation_id": "talk"} for text in texts])
    found = places(bot)
    assert [found[text] - found["turn 0"] for text in texts] == list(range(30))


def test_a_conversation_goes_on_where_it_stopped(bot: Caller) -> None:
    bot.save("one", conversation_id="talk")
    bot.save("elsewhere", conversation_id="other")
    bot.save("two", conversation_id="talk")
    found = places(bot)
    assert found["two"] == found["one"] + 1
    assert found["elsewhere"] // TURNS != found["one"] // TURNS


def test_a_bad_item_or_a_repeated_text_takes_no_place(bot: Caller) -> None:
    bot.save("known")
    items: list[object] = [
        {"content": "one", "conversation_id": "talk"},
        {"content": "", "conversation_id": "talk"},
        {"content": "known", "conversation_id": "talk"},
        {"content": "two", "conversation_id": "talk"},
    ]
    bot.save_list(*items)
    found = places(bot)
    assert found["two"] == found["one"] + 1


def test_without_a_conversation_no_two_memories_are_neighbours(bot: Caller) -> None:
    bot.save_list("a", "b", "c")
    numbers = sorted(places(bot).values())
    assert all(after - before >= TURNS for before, after in pairwise(numbers))


def test_agents_with_the_same_conversation_id_have_conversations_of_their_own(bot: Caller) -> None:
    peer = bot.other(agent="peer")
    bot.save("mine", conversation_id="talk")
    peer.save("theirs", conversation_id="talk")
    assert places(bot)["mine"] // TURNS != places(peer)["theirs"] // TURNS


def test_saves_at_once_into_one_conversation_get_places_of_their_own(bot: Caller) -> None:
    def save(connection: object, number: int) -> None:
        caller = bot.other(connection=connection)
        caller.save_list(
            *[{"content": f"{number} said {n}", "conversation_id": "talk"} for n in range(5)]
        )

    together(bot.connection.info.dsn, 8, save)
    found = places(bot)
    assert len(found) == len(set(found.values())) == 40
    numbers = sorted(found.values())
    assert numbers[-1] - numbers[0] == 39
    for number in range(8):
        turns = [found[f"{number} said {n}"] for n in range(5)]
        assert turns == list(range(turns[0], turns[0] + 5))


def test_neighbours_lend_their_words_and_their_own_conversation_only(bot: Caller) -> None:
    turns = ["Which island?", "Madeira", "unrelated", "noise", "silence"]
    bot.save_list(*[{"content": text, "conversation_id": "talk"} for text in turns])
    bot.save("apart")
    found = bot.found("island")
    assert found[0] == "Which island?"
    assert "Madeira" in found
    assert "silence" not in found
    assert "apart" not in found


def test_words_of_a_forgotten_neighbour_find_nothing(bot: Caller) -> None:
    rows = bot.save_list(
        *[{"content": t, "conversation_id": "t"} for t in ("before", "the qzxunique word", "after")]
    )
    assert sorted(bot.found("qzxunique")) == ["after", "before", "the qzxunique word"]
    bot.call("forget", memory_id=rows[1]["id"])
    assert bot.search("qzxunique") == []
    assert all("qzxunique" not in row["why"] for row in bot.search("before", embedding=vector(1)))


def test_neighbours_of_another_agent_lend_nothing(bot: Caller) -> None:
    bot.save("the qzxunique word", conversation_id="t")
    peer = bot.other(agent="peer")
    peer.save("after", conversation_id="t")
    assert peer.search("qzxunique") == []


def test_a_place_is_unique_within_a_user(bot: Caller) -> None:
    index = scalar(
        bot.connection, "select indexdef from pg_indexes where indexname = 'memories_place'"
    )
    assert "UNIQUE" in index
    assert "(user_id, place)" in index
