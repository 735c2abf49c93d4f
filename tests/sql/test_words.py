"""The inverted index always equals what the active memories say."""

import random
from collections import Counter
from typing import Any

import psycopg
import pytest
from tests.sql.calling import Caller, allowed

WORDS = [
    *(
        "deploy",
        "deploys",
        "server",
        "ERR_QX_7719",
        "don't",
        "naïve",
        "Straße",
        "C++",
        "the",
        "who",
    ),
    *(
        "foo.bar/baz",
        "camelCase",
        "e-mail",
        "3.14",
        "成语接龙",
        "健康红线",
        "しりとりをした",
        "끝말잇기",
    ),
    *("сервер", "สวัสดี", "😀", "`code`", "<b>bold</b>", "```py"),
]


def expected(dba: psycopg.Connection, user: str) -> Counter[tuple[Any, ...]]:
    """The postings that the active memories of a user call for, computed from memory.tokens."""
    postings: Counter[tuple[Any, ...]] = Counter()
    rows = dba.execute(
        """select m.place, m.shared, m.agent_id, m.tags,
            array(select t.word from memory.tokens(memory.indexed_text(m.content)) as t)
        from memory.memories as m where m.user_id = %s and m.state = 'active'""",
        (user,),
    ).fetchall()
    found: Counter[str]
    for place, shared, agent, tags, words in rows:
        found = Counter(words)
        who = "*" if shared else agent
        for word, count in found.items():
            weight = count * 2 / (count + 0.5 + 0.5 * len(words) / 40)
            postings[word, place, who, round(weight, 4)] += 1
        for tag in tags:
            postings[f"#{tag}", place, who, 0.0] += 1
    return postings


def stored(dba: psycopg.Connection, user: str) -> Counter[tuple[Any, ...]]:
    """The postings that there are."""
    rows = dba.execute(
        "select word, place, agent_id, weight from memory.words where user_id = %s", (user,)
    ).fetchall()
    return Counter((word, place, who, round(weight, 4)) for word, place, who, weight in rows)


def change(caller: Caller, chance: random.Random, known: list[Any]) -> None:
    """One random change by one agent; what is refused changes nothing."""
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 12)))
    tags = chance.sample(["a", "b", "The Who", "成语"], chance.randint(0, 2))
    given = chance.choice(known) if known else None
    shared = chance.choice([None, True, False])
    with allowed("MP"):
        match chance.randint(0, 8):
            case 0 | 1 | 2:
                known.append(caller.save(text, tags=tags, shared=shared)["id"])
            case 3:
                rows = caller.save_list(*[{"content": f"{text} {n}", "tags": tags} for n in "xyz"])
                known.extend(row["id"] for row in rows)
            case 4:
                caller.reply("update", memory_id=given, content=text, tags=tags)
            case 5:
                caller.reply("update", memory_id=given, shared=shared, tags=tags)
            case 6:
                caller.call("forget", memory_id=given)
            case 7:
                caller.call("forget", tags=["The Who", "a"])
            case _:
                caller.reply("restore", memory_id=given)


@pytest.mark.parametrize("seed", range(4))
def test_postings_equal_the_tokens_of_active_memories_after_any_changes(
    bot: Caller, dba: psycopg.Connection, seed: int
) -> None:
    chance = random.Random(seed)
    agents = [bot, bot.other(agent="peer")]
    known: list[Any] = []
    for _ in range(3):
        for _ in range(25):
            change(chance.choice(agents), chance, known)
        assert stored(dba, bot.user) == expected(dba, bot.user)
    assert stored(dba, bot.user)


def test_the_comparison_would_see_a_posting_too_many(bot: Caller, dba: psycopg.Connection) -> None:
    bot.save("plain text")
    with bot.connection.transaction():
        bot.identify()
        bot.connection.execute(
            "insert into memory.words values (%s, 'extra', 1, 1, 'bot')", (bot.user,)
        )
    assert stored(dba, bot.user) != expected(dba, bot.user)


def test_keywords_hold_the_same_words_as_the_index(bot: Caller, dba: psycopg.Connection) -> None:
    bot.save(" ".join(WORDS), tags=["tag"])
    keywords = dba.execute(
        "select tsvector_to_array(keywords) from memory.memories where user_id = %s", (bot.user,)
    ).fetchone()
    assert keywords is not None
    words = {word for word, _, _, _ in stored(dba, bot.user)}
    assert set(keywords[0]) == words - {"#tag"}
    assert "err_qx_7719" in words


def test_the_longest_content_and_the_longest_words_can_be_indexed(bot: Caller) -> None:
    long_word, han = "pneumono" * 100, "龍𠮷" * 1000
    assert bot.save(long_word)["status"] == "saved"
    assert bot.save(han)["status"] == "saved"
    assert bot.save(" ".join(f"word{n}" for n in range(890)))["status"] == "saved"
    assert bot.found(long_word) == [long_word]
    assert bot.found("龍𠮷") == [han]
