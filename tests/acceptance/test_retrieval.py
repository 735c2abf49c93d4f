"""Searches with the bundled model, through a real server."""

import pytest
from tests.acceptance.conftest import ServerProcess, connected


async def test_r07_another_word_for_the_same_thing_finds_it(local: ServerProcess) -> None:
    async with connected(local) as agent:
        await agent.save("I bought a new car last week", tags=["r07"])
        await agent.save("The dentist is on the second floor", tags=["r07"])
        found = await agent.contents("automobile purchase", tags=["r07"])
        assert found[0] == "I bought a new car last week"


async def test_r05_an_identifier_comes_first_among_chatter(local: ServerProcess) -> None:
    async with connected(local) as agent:
        chatter = [
            {"content": f"we talked about the weather and plan number {n}", "tags": ["r05"]}
            for n in range(100)
        ]
        await agent.call("save_memory", memories=chatter)
        await agent.save("ERR_QX_7719 raised by scheduler", tags=["r05"])
        found = await agent.contents("ERR_QX_7719", tags=["r05"])
        assert found[0] == "ERR_QX_7719 raised by scheduler"


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("喝什么茶", "I drink green tea in the morning"),
        ("Who learns an instrument?", "安娜在学大提琴"),
    ],
)
async def test_a_question_finds_its_answer_in_the_other_language(
    local: ServerProcess, query: str, wanted: str
) -> None:
    async with connected(local) as agent:
        for content in (
            "I drink green tea in the morning",
            "安娜在学大提琴",
            "The printer is out of paper",
            "下周三开会讨论新首页",
        ):
            await agent.save(content, tags=["languages"])
        assert (await agent.contents(query, tags=["languages"]))[0] == wanted
