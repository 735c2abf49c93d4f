"""A short conversation in English and Chinese, saved and searched, with the scores."""

from typing import Any

from memphant.services import Services
from memphant.settings import Settings
from memphant.store import Principal

CONVERSATION: list[dict[str, Any]] = [
    {"content": "I moved to Lisbon in March and work from home now.", "memory_type": "fact"},
    {
        "content": "Please answer in short sentences, with Python examples.",
        "memory_type": "user_preference",
    },
    {"content": "我对花生过敏，点外卖时要注意。", "memory_type": "fact"},
    {
        "content": "The nightly backup failed with ERR_QX_7719 until the time-out was 90 s.",
        "memory_type": "fact",
    },
    {"content": "下周三和设计团队开会，讨论新首页。", "memory_type": "plan"},
    {"content": "My sister Ana is learning to play the cello.", "memory_type": "fact"},
]
QUESTIONS = [
    "Where did I move to?",
    "ERR_QX_7719",
    "Which food must be avoided?",
    "什么时候开会？",
    "谁在学乐器？",
]


async def run(settings: Settings) -> None:
    """Saves the conversation as user `demo` and asks the questions. A second run adds nothing."""
    services = Services(settings, None)
    who = Principal("demo", "demo")
    try:
        await services.start()
        items = [item | {"source": "user", "conversation_id": "demo"} for item in CONVERSATION]
        embeddings, notes = await services.embed_items(items)
        for saved in await services.store.save_list(who, items, embeddings):
            print(f"{saved.status:>10}  {CONVERSATION[saved.index]['content']}")
        for question in QUESTIONS:
            embedding, more = await services.embed_query(question)
            reply = await services.store.search(
                who,
                question,
                embedding,
                memory_types=None,
                tags=None,
                limit=2,
                cursor=None,
                recent_first=False,
                since=None,
                until=None,
                min_score=None,
                explain=True,
                time_zone=None,
                as_of=None,
            )
            print(f"\n{question}")
            for memory in reply["memories"]:
                arms = ", ".join(f"{arm} {score:.2f}" for arm, score in memory["arms"].items())
                print(f"  {memory['score']:.2f}  {memory['content']}")
                print(f"        {memory['why']} ({arms})")
            notes += more
        for note in notes:
            print(note)
        print(
            "\nThe same in psql: memphant psql -- -c "
            "\"select content from memory.memories where user_id = 'demo'\""
        )
    finally:
        await services.stop()
