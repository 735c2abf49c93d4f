"""The parts of a search by themselves: the embedder, the statement, and what Postgres is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
from bench import asking
from bench.metrics import percentile
from bench.processes import ServerProcess
from bench.rawmcp import RawClient
from bench.throwaway import Throwaway
from numpy.typing import NDArray

from memphant.embedding import Embedder, Embedding
from memphant.store import vector_text

WARMING = 30  # calls before any is counted
COUNTED = 20  # searches whose statements are counted
LIMIT = 10

STATEMENT: LiteralString = """select memory.search_reply(
    user_id => %(user)s, agent_id => %(agent)s, query => %(query)s, embedding => %(embedding)s,
    max_results => 10) as reply"""

Figures = dict[str, Any]
Vector = NDArray[np.float32]


def timed(calls: Sequence[Callable[[], object]]) -> Figures:
    """Latency of the calls, and this process's CPU per call."""
    for call in calls[:WARMING]:
        call()
    seconds = []
    before = time.process_time()
    for call in calls:
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    spent = time.process_time() - before
    return {"ms_p50": percentile(seconds, 50), "cpu_ms": round(1000 * spent / len(calls), 3)}


def embedding_alone(embedder: Embedder, questions: Sequence[str]) -> Figures:
    """The embedder without a server around it."""
    loop = asyncio.new_event_loop()

    def call(text: str) -> Callable[[], object]:
        return lambda: loop.run_until_complete(embedder.embed([text], "query"))

    try:
        return timed([call(text) for text in questions])
    finally:
        loop.run_until_complete(embedder.close())
        loop.close()


def sql_alone(
    throwaway: Throwaway, user: str, questions: Sequence[str], vectors: Iterable[Vector]
) -> Figures:
    """The statement of a search over one connection, its reply parsed."""
    with throwaway.connect() as connection:

        def call(text: str, vector: Vector) -> Callable[[], object]:
            given = {
                "user": user,
                "agent": asking.AGENT,
                "query": text,
                "embedding": vector_text(Embedding(vector)),
            }
            return lambda: connection.execute(STATEMENT, given).fetchall()

        connection.execute("select memory._warm()")
        return timed([call(text, vector) for text, vector in zip(questions, vectors, strict=True)])


def statements(throwaway: Throwaway, server: ServerProcess, questions: Sequence[str]) -> float:
    """How many statements Postgres is sent for a search, by its log.

    Slightly above a whole number: the worker asks now and then what waits for a vector.
    """
    assert throwaway.superuser is not None
    with throwaway.connect(throwaway.superuser) as admin, RawClient(server.url) as client:
        row = admin.execute("show data_directory").fetchone()
        assert row is not None
        log = Path(row[0]).parent / "postgres.log"
        admin.execute("alter system set log_statement = 'all'")
        admin.execute("select pg_reload_conf()")
        time.sleep(1)
        start = log.stat().st_size
        for question in questions[:COUNTED]:
            client.call("search_memories", query=question, limit=LIMIT)
        time.sleep(0.2)
        with log.open("rb") as file:
            file.seek(start)
            seen = file.read().decode(errors="replace")
        admin.execute("alter system reset log_statement")
        admin.execute("select pg_reload_conf()")
    # both forms of the protocol
    found = seen.count("LOG:  statement:") + seen.count("LOG:  execute")
    return round(found / COUNTED, 2)
