"""Correcting a memory: what is not named stays."""

import pytest
from tests.sql.calling import Caller, refused, vector


def test_r30_an_update_of_the_text_keeps_everything_else(bot: Caller) -> None:
    saved = bot.save(
        "the meeting is on Monday",
        tags=["a", "b"],
        metadata={"ticket": 7},
        memory_type="plan",
        source="user",
        confidence=0.7,
        shared=True,
        conversation_id="talk",
        occurred_at="2026-05-31T12:00Z",
        embedding=vector(1),
    )
    before = saved["memory"]
    after = bot.reply("update", memory_id=saved["id"], content="the meeting is on Tuesday")
    assert after["content"] == "the meeting is on Tuesday"
    changed = {"content", "version", "updated_at", "embedded", "event_from", "event_to"}
    assert {k: v for k, v in after.items() if k not in changed} == {
        k: v for k, v in before.items() if k not in changed
    }
    assert after["version"] == before["version"] + 1
    assert after["created_at"] == before["created_at"]


def test_r30_the_reply_is_the_stored_state(bot: Caller) -> None:
    saved = bot.save("text", confidence=0.4, source="tool")
    for named in (
        {"content": "changed"},
        {"tags": ["x", "y", "x"]},
        {"confidence": 0.99},
        {"metadata": {"k": [1]}},
        {"memory_type": "plan"},
        {"confirmed": True},
        {"occurred_at": "2026-01-02"},
        {"shared": True},
    ):
        reply = bot.reply("update", memory_id=saved["id"], **named)
        assert reply == bot.reply("get", memory_id=saved["id"])


def test_the_old_words_find_nothing_and_the_new_ones_find_it(bot: Caller) -> None:
    saved = bot.save("the gate code is quetzal")
    bot.reply("update", memory_id=saved["id"], content="the gate code is axolotl")
    assert bot.search("quetzal") == []
    assert bot.found("axolotl") == ["the gate code is axolotl"]


def test_a_changed_text_loses_its_vector_unless_a_new_one_is_given(bot: Caller) -> None:
    saved = bot.save("one", embedding=vector(1))
    assert bot.reply("update", memory_id=saved["id"], content="two")["embedded"] is False
    assert bot.search("nothing", embedding=vector(1)) == []
    reply = bot.reply("update", memory_id=saved["id"], content="three", embedding=vector(1))
    assert "embedded" not in reply
    assert bot.found("nothing", embedding=vector(1)) == ["three"]


def test_what_is_no_change_of_the_text_keeps_the_vector(bot: Caller) -> None:
    saved = bot.save("one", embedding=vector(1))
    for named in ({"content": "one"}, {"tags": ["t"]}, {"shared": True}):
        assert "embedded" not in bot.reply("update", memory_id=saved["id"], **named)


def test_tags_and_metadata_are_replaced_and_can_be_emptied(bot: Caller) -> None:
    saved = bot.save("text", tags=["a"], metadata={"k": 1})
    reply = bot.reply("update", memory_id=saved["id"], tags=["b"], metadata={"m": 2})
    assert (reply["tags"], reply["metadata"]) == (["b"], {"m": 2})
    assert bot.search("text", tags=["a"]) == []
    reply = bot.reply("update", memory_id=saved["id"], tags=[], metadata={})
    assert reply["tags"] == []
    assert "metadata" not in reply


def test_a_person_confirms_and_takes_it_back(bot: Caller) -> None:
    saved = bot.save("text")
    assert "confirmed_at" in bot.reply("update", memory_id=saved["id"], confirmed=True)
    assert "confirmed_at" in bot.reply("update", memory_id=saved["id"], tags=["t"])
    assert "confirmed_at" not in bot.reply("update", memory_id=saved["id"], confirmed=False)


def test_confidence_stays_under_the_maximum_of_the_source(bot: Caller) -> None:
    saved = bot.save("text", source="web")
    reply = bot.reply("update", memory_id=saved["id"], confidence=1)
    assert reply["confidence"] == pytest.approx(0.7)


def test_a_text_that_another_memory_has_is_refused(bot: Caller) -> None:
    bot.save("one")
    saved = bot.save("two")
    with refused("MP011"):
        bot.reply("update", memory_id=saved["id"], content=" one ")
    assert sorted(bot.contents()) == ["one", "two"]


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("MP005", {"content": ""}),
        ("MP005", {"content": " \n"}),
        ("MP005", {"content": "x" * 8001}),
        ("MP006", {"memory_type": "rumour"}),
        ("MP005", {"tags": [f"t{n}" for n in range(33)]}),
        ("MP005", {"tags": [""]}),
        ("MP005", {"confidence": 1.5}),
        ("MP005", {"confidence": float("nan")}),
        ("MP005", {"metadata": {"k": "v" * 16384}}),
        ("MP005", {"occurred_at": "soon"}),
        ("MP007", {"embedding": vector(1, dimensions=3)}),
    ],
)
def test_what_a_save_refuses_an_update_refuses(
    bot: Caller, code: str, named: dict[str, object]
) -> None:
    saved = bot.save("text", tags=["kept"])
    with refused(code):
        bot.reply("update", memory_id=saved["id"], **named)
    assert bot.reply("get", memory_id=saved["id"]) == saved["memory"]


def test_a_forgotten_memory_cannot_be_updated(bot: Caller) -> None:
    saved = bot.save("text")
    bot.call("forget", memory_id=saved["id"])
    with refused("MP003"):
        bot.reply("update", memory_id=saved["id"], content="other")
