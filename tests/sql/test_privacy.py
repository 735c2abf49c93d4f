"""What is private does not exist for others; what is shared can be read and not changed."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from tests.sql.calling import Caller, refusal, refused, vector

by_id: dict[str, Callable[[Caller, object], object]] = {
    "get": lambda who, given: who.reply("get", memory_id=given),
    "update": lambda who, given: who.reply("update", memory_id=given, content="taken over"),
    "forget": lambda who, given: who.call("forget", memory_id=given),
    "forget_reply": lambda who, given: who.reply("forget_reply", memory_id=given),
    "purge": lambda who, given: who.call("forget", memory_id=given, purge=True),
    "history": lambda who, given: who.call("history", memory_id=given),
    "restore": lambda who, given: who.reply("restore", memory_id=given),
    "revert": lambda who, given: who.reply("revert", memory_id=given, version=1),
}


@pytest.fixture(params=["another agent", "another user"])
def stranger(request: pytest.FixtureRequest, bot: Caller, user: str) -> Caller:
    """Someone with memories of their own, and no right to the bot's."""
    changed = {"agent": "spy"} if request.param == "another agent" else {"user": f"{user}-b"}
    who = bot.other(**changed)
    who.save("what the stranger saved themselves")
    return who


@pytest.mark.parametrize("surface", by_id)
def test_r23_a_private_memory_of_another_is_answered_like_an_unknown_id(
    bot: Caller, stranger: Caller, surface: str
) -> None:
    saved = bot.save("the vault opens with heptagon")
    bot.reply("update", memory_id=saved["id"], content="the vault opens with heptagons")
    unknown = uuid4()
    answer = refusal(lambda: by_id[surface](stranger, saved["id"]))
    expected = refusal(lambda: by_id[surface](stranger, unknown))
    assert answer[0] == "MP003"
    assert [part and part.replace(str(saved["id"]), str(unknown)) for part in answer] == [*expected]
    assert bot.reply("get", memory_id=saved["id"])["content"] == "the vault opens with heptagons"


def test_r22_r23_a_private_memory_is_in_no_search_list_or_bulk_forget_of_another(
    bot: Caller, stranger: Caller
) -> None:
    bot.save("the vault opens with heptagon", embedding=vector(1), tags=["door"])
    for named in ({}, {"embedding": vector(1)}, {"tags": ["door"]}):
        assert "the vault opens with heptagon" not in stranger.found("vault heptagon", **named)
    assert stranger.contents() == ["what the stranger saved themselves"]
    for function, named in (("search_reply", {"query": "heptagon"}), ("list_reply", {})):
        assert "heptagon" not in str(stranger.reply(function, **named)["memories"])
    gone = stranger.call("forget", days_older_than=-0.0, tags=["door"])
    assert gone == []
    assert bot.contents() == ["the vault opens with heptagon"]


def test_r22_the_same_text_of_two_users_is_two_memories(bot: Caller, stranger: Caller) -> None:
    mine, theirs = bot.save("the same words"), stranger.save("the same words")
    assert (mine["status"], theirs["status"]) == ("saved", "saved")
    assert mine["id"] != theirs["id"]
    stranger.call("forget", memory_id=theirs["id"])
    assert bot.found("same words") == ["the same words"]


def test_a_shared_memory_is_read_by_the_users_other_agents_only(bot: Caller, user: str) -> None:
    saved = bot.save("the office is in Lyon", shared=True, embedding=vector(1))
    peer, outsider = bot.other(agent="peer"), bot.other(user=f"{user}-b")
    outsider.save("something")
    assert peer.found("office") == ["the office is in Lyon"]
    assert peer.found("quite different", embedding=vector(1)) == ["the office is in Lyon"]
    assert peer.contents() == ["the office is in Lyon"]
    assert peer.reply("get", memory_id=saved["id"])["agent"] == "bot"
    assert outsider.found("office") == []
    with refused("MP003"):
        outsider.reply("get", memory_id=saved["id"])


@pytest.mark.parametrize("surface", ["update", "forget", "forget_reply", "purge"])
def test_a_shared_memory_of_another_agent_cannot_be_changed(bot: Caller, surface: str) -> None:
    saved = bot.save("the office is in Lyon", shared=True)
    with refused("MP004") as caught:
        by_id[surface](bot.other(agent="peer"), saved["id"])
    assert "bot" in str(caught.value)
    assert bot.reply("get", memory_id=saved["id"]) == saved["memory"]


def test_bulk_forgetting_leaves_shared_memories_of_other_agents(bot: Caller) -> None:
    bot.save("the office is in Lyon", shared=True, tags=["office"])
    assert bot.other(agent="peer").call("forget", tags=["office"]) == []
    assert bot.contents() == ["the office is in Lyon"]


def test_the_same_text_as_a_shared_memory_is_a_memory_of_ones_own(bot: Caller) -> None:
    theirs = bot.save("the office is in Lyon", shared=True)
    mine = bot.other(agent="peer").save("the office is in Lyon")
    assert mine["status"] == "saved"
    assert mine["id"] != theirs["id"]


def test_sharing_and_no_longer_sharing_take_effect_at_once(bot: Caller) -> None:
    saved = bot.save("the office is in Lyon")
    peer = bot.other(agent="peer")
    assert peer.found("office") == []
    bot.reply("update", memory_id=saved["id"], shared=True)
    assert peer.found("office") == ["the office is in Lyon"]
    bot.reply("update", memory_id=saved["id"], shared=False)
    assert peer.found("office") == []


def test_what_an_agent_forgot_or_purged_is_gone_for_its_peers_too(bot: Caller) -> None:
    saved = bot.save("the office is in Lyon", shared=True)
    bot.call("forget", memory_id=saved["id"])
    peer = bot.other(agent="peer")
    assert peer.found("office") == []
    with refused("MP003"):
        peer.reply("get", memory_id=saved["id"])
