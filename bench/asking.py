"""Sets saved through memory.save_list and asked through memory.search, as the server's role."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from bench.sets import EvaluationSet, Memory, Question
from bench.throwaway import Throwaway
from bench.vectors import CachedVectors, Vectors

from memphant.embedding import Embedding
from memphant.store import vector_text

AGENT = "bench"
LIST = 100  # memories of one save
CONNECTIONS = 2
SHOWN = 10

SEARCH: LiteralString = """select s.id::text
    from memory.search(
        user_id => %(user)s, agent_id => %(agent)s, query => %(query)s, embedding => %(embedding)s,
        max_results => %(limit)s) as s"""
# what the vectors alone would answer: every memory of the tenant compared, under the same policies
NEAREST: LiteralString = """select m.id::text
    from memory.memories as m
    where m.user_id = %(user)s and m.state = 'active'
    order by (m.embedding <=> %(embedding)s) + 0
    limit %(limit)s"""
IDENTITY: LiteralString = """select set_config('memory.user_id', %(user)s, true),
    set_config('memory.agent_id', %(agent)s, true)"""


@dataclass(frozen=True, slots=True)
class Saved:
    """A set in the database. The same text twice is one row, so several ids may share one."""

    evaluation: EvaluationSet
    prefix: str
    rows: dict[tuple[str, str], str]
    queries: Vectors
    seconds: float

    def user(self, name: str) -> str:
        """The user's name in the database."""
        return f"{self.prefix}/{self.evaluation.name}/{name}"

    def relevant(self) -> list[set[str]]:
        """The rows that answer each question."""
        return [
            {self.rows[question.user, id_] for id_ in question.relevant}
            for question in self.evaluation.questions
        ]


@dataclass(frozen=True, slots=True)
class Answers:
    """The rows found for each question, best first, and the time each took."""

    rankings: list[list[str]]
    seconds: list[float]


def save(
    throwaway: Throwaway, evaluation: EvaluationSet, vectors: CachedVectors, prefix: str
) -> Saved:
    """Saves every memory: a user for each of the set's, a conversation for each session."""
    contents = [memory.text for memory in evaluation.memories]
    made = vectors(indexed_texts(throwaway, contents), "passage")
    embedded = dict(zip(contents, made, strict=True))
    queries = vectors([question.text for question in evaluation.questions], "query")
    saved = Saved(evaluation, prefix, {}, queries, 0)

    def one_user(connection: psycopg.Connection, name: str, memories: list[Memory]) -> None:
        for start in range(0, len(memories), LIST):
            part = memories[start : start + LIST]
            given = [vector_text(Embedding(embedded[memory.text])) for memory in part]
            rows = connection.execute(
                """select s.index, s.id::text, s.message
                from memory.save_list(
                    user_id => %(user)s, agent_id => %(agent)s, items => %(items)s,
                    embeddings => %(embeddings)s) as s""",
                {
                    "user": saved.user(name),
                    "agent": AGENT,
                    "items": json.dumps([_item(memory) for memory in part]),
                    "embeddings": "{" + ",".join(f'"{vector}"' for vector in given) + "}",
                },
            ).fetchall()
            for index, row, message in rows:
                if row is None:
                    raise RuntimeError(f"{name}, {part[index].id}: {message}")
                saved.rows[name, part[index].id] = row

    begun = time.perf_counter()
    _each(throwaway, one_user, list(evaluation.by_user().items()))
    return Saved(evaluation, prefix, saved.rows, queries, time.perf_counter() - begun)


def indexed_texts(throwaway: Throwaway, contents: list[str]) -> list[str]:
    """What of each content the server would embed."""
    with throwaway.connect() as connection:
        rows = connection.execute(
            """select memory.indexed_text(content => c.content)
            from unnest(%s::text[]) with ordinality as c (content, n) order by c.n""",
            (contents,),
        ).fetchall()
    return [row[0] for row in rows]


def search(throwaway: Throwaway, saved: Saved, *, vector: bool = True) -> Answers:
    """memory.search; without a vector it searches by keywords only."""
    return _asked(throwaway, saved, SEARCH, vector)


def nearest(throwaway: Throwaway, saved: Saved) -> Answers:
    """The vectors alone, exactly."""
    return _asked(throwaway, saved, NEAREST, True)


def remove(throwaway: Throwaway, saved: Saved) -> None:
    """Takes the memories out again, for a database that is not thrown away."""
    with throwaway.connect() as connection:
        for name in saved.evaluation.by_user():
            identity = {"user": saved.user(name), "agent": AGENT}
            with connection.transaction():
                connection.execute(IDENTITY, identity)
                connection.execute("delete from memory.memories where user_id = %(user)s", identity)


def analyze(throwaway: Throwaway) -> None:
    """Statistics as they are once autovacuum has passed. Only in a database of our own."""
    if throwaway.superuser is not None:
        with throwaway.connect(throwaway.superuser) as connection:
            connection.execute("vacuum analyze")


def _asked(throwaway: Throwaway, saved: Saved, statement: LiteralString, vector: bool) -> Answers:
    questions = saved.evaluation.questions
    empty: list[str] = []
    answers = Answers([empty] * len(questions), [0.0] * len(questions))

    def one(connection: psycopg.Connection, at: int, question: Question) -> None:
        given = {
            "user": saved.user(question.user),
            "agent": AGENT,
            "query": question.text,
            "embedding": vector_text(Embedding(saved.queries[at])) if vector else None,
            "limit": SHOWN,
        }
        begun = time.perf_counter()
        with connection.transaction():
            if statement is NEAREST:
                connection.execute(IDENTITY, given)
            rows = connection.execute(statement, given).fetchall()
        answers.seconds[at] = time.perf_counter() - begun
        answers.rankings[at] = [row[0] for row in rows]

    _each(throwaway, one, list(enumerate(questions)))
    return answers


def _each(
    throwaway: Throwaway, work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]
) -> None:
    """Calls work(connection, *arguments) for each, over a few connections at once."""
    local = threading.local()
    opened: list[psycopg.Connection] = []

    def connect() -> None:
        local.connection = throwaway.connect()
        opened.append(local.connection)
        # the first search of a connection plans for some milliseconds
        local.connection.execute("select memory._warm()")

    try:
        with ThreadPoolExecutor(CONNECTIONS, initializer=connect) as threads:
            list(threads.map(lambda given: work(local.connection, *given), arguments))
    finally:
        for connection in opened:
            connection.close()


def _item(memory: Memory) -> dict[str, str]:
    item = {"content": memory.text}
    if memory.conversation is not None:
        item["conversation_id"] = memory.conversation
    if memory.occurred_at is not None:
        item["occurred_at"] = memory.occurred_at.isoformat()
    return item
