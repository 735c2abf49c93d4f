"""Fill a database for load tests: python -m bench.seed --rows 100000 --tenants 200

A throwaway cluster is started, filled and kept until Ctrl-C; its connection strings are printed.
MEMPHANT_DATABASE_URL and MEMPHANT_INSTALL_URL name an empty database to fill instead, which stays.
Texts are made of invented words whose frequencies fall as those of a language do, in topics, and
each vector lies near the centre of its text's topic. The first tenant is the largest: the n-th has
1/n of its memories. What a script asks for stands in bench.queries.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench.throwaway import Throwaway, open_database
from numpy.typing import NDArray

from memphant import rebuild
from memphant.embedding import EmbeddingSettings, build_embedder

WORDS, TOPICS, TOPIC_WORDS = 20_000, 400, 60
LIST = 100  # the most that one save takes
LOADERS = 2
QUERIES = 1_000
NOISE = 0.9  # length of what sets a vector apart from its topic's centre of length 1
AGENT = "bench"

Vector = NDArray[np.float32]

# Beside the schema of memphant, so that a pgbench script can pick a query with its vector.
QUERY_TABLE = """
create schema bench;
create table bench.queries (number integer primary key, query text, embedding {type});
grant usage on schema bench to memphant_server;
grant select on bench.queries to memphant_server;
"""


@dataclass(frozen=True, slots=True)
class Seeded:
    """What was made, and how long it took."""

    rows: int
    tenants: int
    largest: int
    save_seconds: float
    index_seconds: float


class Language:
    """Invented words, topics, and vectors near their centres."""

    def __init__(self, dimensions: int, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        syllables = ["".join(pair) for pair in itertools.product("bdfghklmnprstvz", "aeiou")]
        parts = self._random.integers(0, len(syllables), (WORDS, 3))
        self._words = ["".join(syllables[i] for i in row) for row in parts]
        frequencies = 1 / np.arange(1, WORDS + 1)
        self._frequencies = frequencies / frequencies.sum()
        self._topics = self._random.integers(0, WORDS, (TOPICS, TOPIC_WORDS))
        self._centres = _unit(self._random.normal(size=(TOPICS, dimensions)))

    def text(self, words: int) -> tuple[str, Vector]:
        """A text, half of it words of one topic, and its vector."""
        topic = int(self._random.integers(TOPICS))
        half = words // 2
        chosen = [
            *self._random.choice(self._topics[topic], half),
            *self._random.choice(WORDS, words - half, p=self._frequencies),
        ]
        noise = _unit(self._random.normal(size=self._centres.shape[1]))
        return (
            " ".join(self._words[i] for i in self._random.permutation(chosen)),
            _unit(self._centres[topic] + NOISE * noise),
        )

    def length(self) -> int:
        """Words of a memory: 20 on average, seldom more than 60."""
        return int(min(200, 4 + self._random.gamma(2, 8)))


def sizes(rows: int, tenants: int) -> list[int]:
    """How many memories each tenant has: at least one, in all `rows`."""
    shares = 1 / np.arange(1, tenants + 1)
    counts = np.maximum(1, np.floor(shares / shares.sum() * rows)).astype(int)
    counts[0] += rows - counts.sum()
    if counts[0] < 1:
        raise SystemExit(f"{rows} memories are too few for {tenants} tenants")
    return [int(count) for count in counts]


def seed(throwaway: Throwaway, dimensions: int, rows: int, tenants: int) -> Seeded:
    """Saves `rows` memories of users tenant-1, tenant-2, … through memory.save_list.

    The vector index is built afterwards. Raises SystemExit if the database is in use.
    """
    language = Language(dimensions)
    counts = sizes(rows, tenants)
    with throwaway.connect(throwaway.owner) as owner:
        users = owner.execute("select o.figure from memory.overview as o where o.subject = 'users'")
        if users.fetchone() != ("0",):
            raise SystemExit("This database has users: seed an empty one, and drop it afterwards.")
        owner.execute("drop index memory.memories_embedding_hnsw")
    started = time.monotonic()
    _save(throwaway, language, counts)
    saved = time.monotonic()
    rebuild.rebuild(throwaway.owner)
    indexed = time.monotonic()
    with throwaway.connect(throwaway.owner) as owner:
        owner.execute(QUERY_TABLE.format(type=f"halfvec({dimensions})").encode())
        for number in range(1, QUERIES + 1):
            query, vector = language.text(2 + number % 7)
            owner.execute(
                "insert into bench.queries (number, query, embedding) values (%s, %s, %s)",
                (number, query, _text(vector)),
            )
        owner.execute("vacuum (analyze) memory.memories, memory.words, bench.queries")
    return Seeded(rows, tenants, max(counts), saved - started, indexed - saved)


def _save(throwaway: Throwaway, language: Language, counts: list[int]) -> None:
    local = threading.local()
    slots = threading.Semaphore(LOADERS * 2)
    total, done = sum(counts), itertools.count(1)

    def store(batch: tuple[str, list[dict[str, Any]], str]) -> None:
        try:
            if not hasattr(local, "connection"):
                local.connection = throwaway.connect()
            user, items, vectors = batch
            local.connection.execute(
                """select from memory.save_list(
                    user_id => %s, agent_id => %s, items => %s, embeddings => %s)""",
                (user, AGENT, json.dumps(items), vectors),
            )
            if (number := next(done)) % 100 == 0:
                print(f"{number * LIST} of about {total} memories", flush=True)
        finally:
            slots.release()

    with ThreadPoolExecutor(LOADERS) as loaders:
        waiting = []
        for batch in _batches(language, counts):
            slots.acquire()
            waiting.append(loaders.submit(store, batch))
        for one in waiting:
            one.result()


def _batches(
    language: Language, counts: list[int]
) -> Iterator[tuple[str, list[dict[str, Any]], str]]:
    for tenant, count in enumerate(counts, 1):
        for start in range(0, count, LIST):
            texts = [language.text(language.length()) for _ in range(min(LIST, count - start))]
            items = [
                {
                    "content": f"{text} {tenant}.{start + i}",
                    "conversation_id": f"c{(start + i) // 20}",
                }
                for i, (text, _) in enumerate(texts)
            ]
            vectors = ",".join(f'"{_text(vector)}"' for _, vector in texts)
            yield f"tenant-{tenant}", items, "{" + vectors + "}"


def _unit(vectors: Any) -> Vector:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    result: Vector = (vectors / lengths).astype(np.float32)
    return result


def _text(vector: Vector) -> str:
    return "[" + ",".join(f"{value:.5g}" for value in vector.tolist()) + "]"


@contextlib.contextmanager
def seeded(
    rows: int, tenants: int, settings: dict[str, str] | None = None
) -> Iterator[tuple[Throwaway, Seeded]]:
    """A database with so many memories, which is gone afterwards if it was started for this."""
    embedder = build_embedder(EmbeddingSettings())
    with open_database(embedder, settings) as throwaway:
        yield throwaway, seed(throwaway, embedder.dimensions, rows, tenants)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=200)
    given = parser.parse_args()
    with seeded(given.rows, given.tenants) as (throwaway, made):
        print(made)
        print(f"server: {throwaway.server}\nowner: {throwaway.owner}\nCtrl-C ends it.")
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
