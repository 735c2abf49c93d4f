"""The same memory saved again is one row, reinforced."""

import pytest
from tests.sql.calling import Caller, refused, scalar, vector

TEXT = "The deployment runs on Fridays"


def test_r28_the_same_text_is_one_row_with_the_same_id(bot: Caller) -> None:
    first, second = bot.save(TEXT), bot.save(TEXT)
    assert (first["status"], second["status"]) == ("saved", "reinforced")
    assert first["id"] == second["id"]
    assert bot.contents() == [TEXT]


@pytest.mark.parametrize("again", [f"  {TEXT}\n", TEXT.replace(" ", "\n\t "), f"\u3000{TEXT}"])
def test_r28_white_space_does_not_make_it_another_text(bot: Caller, again: str) -> None:
    first, second = bot.save(TEXT), bot.save(again)
    assert first["id"] == second["id"]
    assert bot.contents() == [TEXT]


@pytest.mark.parametrize("again", [TEXT.lower(), f"{TEXT}.", TEXT.replace("Fri", "Sun")])
def test_r43_another_text_is_another_memory(bot: Caller, again: str) -> None:
    assert bot.save(TEXT)["id"] != bot.save(again)["id"]
    assert len(bot.contents()) == 2


def test_r43_texts_that_differ_in_a_number_or_a_not_are_both_stored(bot: Caller) -> None:
    texts = ["buy 2 apples", "buy 3 apples", "deploy to prod", "do not deploy to prod"]
    rows = bot.save_list(*texts)
    assert {row["status"] for row in rows} == {"saved"}
    assert sorted(bot.contents()) == sorted(texts)


def test_confidence_grows_by_another_conversation(bot: Caller) -> None:
    bot.save(TEXT, source="user", confidence=0.5, conversation_id="a")
    again = bot.save(TEXT, source="user", confidence=0.6, conversation_id="b")
    assert again["memory"]["confidence"] == pytest.approx(1 - 0.5 * 0.4)


def test_confidence_grows_when_a_day_lies_between(bot: Caller) -> None:
    bot.save(TEXT, confidence=0.5, conversation_id="a", occurred_at="2026-05-01T12:00Z")
    again = bot.save(TEXT, confidence=0.5, conversation_id="a", occurred_at="2026-05-02T12:00Z")
    assert again["memory"]["confidence"] == pytest.approx(0.75)


@pytest.mark.parametrize(("again", "expected"), [(0.4, 0.5), (0.6, 0.6)])
def test_in_the_same_conversation_the_greater_confidence_stays(
    bot: Caller, again: float, expected: float
) -> None:
    bot.save(TEXT, confidence=0.5, conversation_id="a", occurred_at="2026-05-01T12:00Z")
    repeated = bot.save(
        TEXT, confidence=again, conversation_id="a", occurred_at="2026-05-02T11:59Z"
    )
    assert repeated["memory"]["confidence"] == pytest.approx(expected)


def test_confidence_is_capped_by_the_maximum_of_the_source(bot: Caller) -> None:
    for conversation in "abcdef":
        last = bot.save(TEXT, source="tool", confidence=0.6, conversation_id=conversation)
    assert last["memory"]["confidence"] == pytest.approx(0.7)


def test_tags_are_united_metadata_is_new_over_old_and_the_newest_type_wins(bot: Caller) -> None:
    bot.save(TEXT, tags=["a", "b"], metadata={"x": 1, "y": 1}, memory_type="plan")
    memory = bot.save(TEXT, tags=["c", "b"], metadata={"y": 2, "z": 3})["memory"]
    assert memory["tags"] == ["a", "b", "c"]
    assert memory["metadata"] == {"x": 1, "y": 2, "z": 3}
    assert memory["memory_type"] == "plan"
    assert bot.save(TEXT, memory_type="summary")["memory"]["memory_type"] == "summary"
    assert bot.found("deployment", tags=["a", "c"]) == [TEXT]


def test_sharing_changes_only_when_it_is_given(bot: Caller) -> None:
    bot.save(TEXT, shared=True)
    assert bot.save(TEXT)["memory"]["shared"] is True
    assert bot.save(TEXT, shared=False)["memory"]["shared"] is False


def test_a_use_is_counted_and_a_missing_vector_taken(bot: Caller) -> None:
    saved = bot.save(TEXT)
    assert "embedded" not in bot.save(TEXT, embedding=vector(1))["memory"]
    with bot.connection.transaction():
        bot.identify()
        uses = scalar(
            bot.connection, "select uses from memory.usage where memory_id = %s", saved["id"]
        )
    assert uses == 1


def test_tags_that_together_are_too_many_are_an_error_and_change_nothing(bot: Caller) -> None:
    first = bot.save(TEXT, tags=[f"a{n}" for n in range(20)])
    with refused("MP005"):
        bot.save(TEXT, tags=[f"b{n}" for n in range(20)])
    assert bot.reply("get", memory_id=first["id"]) == first["memory"]


def test_a_forgotten_text_can_be_saved_anew(bot: Caller) -> None:
    first = bot.save(TEXT)
    bot.call("forget", memory_id=first["id"])
    second = bot.save(TEXT)
    assert second["status"] == "saved"
    assert second["id"] != first["id"]
    assert bot.found("deployment") == [TEXT]


def test_r44_a_retry_with_the_same_key_answers_with_what_the_first_one_made(bot: Caller) -> None:
    first = bot.save(TEXT, idempotency_key="k1", tags=["a"])
    retry = bot.save(TEXT, idempotency_key="k1", tags=["a"])
    assert (retry["status"], retry["id"]) == ("already saved", first["id"])
    assert retry["memory"] == first["memory"]
    assert bot.contents() == [TEXT]


def test_r44_a_key_that_was_used_for_another_content_is_refused(bot: Caller) -> None:
    bot.save(TEXT, idempotency_key="k1")
    with refused("MP008"):
        bot.save("something else", idempotency_key="k1")
    assert bot.contents() == [TEXT]
    assert bot.other(agent="peer").save("else", idempotency_key="k1")["status"] == "saved"


def test_r44_a_retry_of_a_save_that_reinforced_answers_with_that_memory(bot: Caller) -> None:
    first = bot.save(TEXT)
    reinforced = bot.save(TEXT, idempotency_key="k1")
    retry = bot.save(TEXT, idempotency_key="k1")
    assert reinforced["id"] == retry["id"] == first["id"]
    assert retry["memory"]["version"] == reinforced["memory"]["version"]


def test_r44_a_retry_after_an_error_is_an_error_again_and_not_an_empty_success(
    bot: Caller,
) -> None:
    bot.save(TEXT, tags=[f"a{n}" for n in range(20)])
    item = {"content": TEXT, "tags": [f"b{n}" for n in range(20)], "idempotency_key": "k1"}
    for _ in range(2):
        (row,) = bot.save_list(item)
        assert (row["status"], row["code"]) == ("error", "MP005")
    (row,) = bot.save_list({**item, "tags": ["fits"]})
    assert row["status"] == "reinforced"
