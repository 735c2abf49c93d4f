"""The statements whose latency is measured: ours and the plain ones, on the same queries.

Ours run as the server's role under row-level security. The plain ones read one table without
partitions and policies: nearest by HNSW over all tenants, and words by GIN within one tenant.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from bench.staging import AGENT
from bench.tenants import Population

from memphant.embedding import Embedding
from memphant.store import vector_text

SHOWN = 10

IDENTITY: LiteralString = """select set_config('memory.user_id', %(user)s, false),
    set_config('memory.agent_id', %(agent)s, false)"""

VECTOR: LiteralString = """select v.place, v.cosine from memory._vector_candidates(
    user_id => %(user)s, agent_id => %(agent)s, embedding => %(embedding)s,
    candidates => 10, rows_of_user => %(size)s,
    filters => jsonb_populate_record(null::memory.filters, '{}')) as v"""
KEYWORD_SMALL: LiteralString = """select k.place, k.score from memory._keyword_small(
    user_id => %(user)s, agent_id => %(agent)s, words => %(words)s, rows_of_user => %(size)s,
    others => null, candidates => 100, lent => memory._lent(),
    filters => jsonb_populate_record(null::memory.filters, '{}')) as k
    order by k.score desc limit 10"""
KEYWORD_LARGE: LiteralString = """select k.place, k.score from memory._keyword_large(
    user_id => %(user)s, agent_id => %(agent)s, words => %(words)s, rows_of_user => %(size)s,
    others => null, candidates => 100, lent => memory._lent(),
    filters => jsonb_populate_record(null::memory.filters, '{}')) as k
    order by k.score desc limit 10"""
SIZE: LiteralString = "select memory._rows(%(user)s, %(agent)s)"
SEARCH: LiteralString = """select s.id, s.content, s.score from memory.search(
    user_id => %(user)s, agent_id => %(agent)s, query => %(query)s, embedding => %(embedding)s,
    max_results => 10) as s"""
KEYWORD_SEARCH: LiteralString = """select s.id, s.content, s.score from memory.search(
    user_id => %(user)s, agent_id => %(agent)s, query => %(query)s, max_results => 10) as s"""
PLAIN_VECTOR: LiteralString = """select p.id from bench.plain as p
    order by p.embedding <=> %(embedding)s limit 10"""
PLAIN_KEYWORD: LiteralString = """select p.id from bench.plain as p
    where p.user_id = %(user)s and p.tsv @@ %(tsquery)s::tsquery
    order by ts_rank(p.tsv, %(tsquery)s::tsquery) desc limit 10"""
# an expression keeps the planner from the index on user_id
PLAIN_GIN_ONLY: LiteralString = """select p.id from bench.plain as p
    where p.user_id || '' = %(user)s and p.tsv @@ %(tsquery)s::tsquery
    order by ts_rank(p.tsv, %(tsquery)s::tsquery) desc limit 10"""

READ: LiteralString = """select w.words, (
        select string_agg('''' || replace(replace(word, '\\', '\\\\'), '''', '''''') || '''', ' | ')
        from unnest(w.words) as word) as tsquery
    from (select memory._query_words(%(query)s) as words) as w"""

# what the arms plan anew at every call or once per connection, as they state it
PLANNED: dict[str, LiteralString] = {
    "exact scan": """select m.place from memory.memories as m
        where m.user_id = %(user)s and (m.agent_id = %(agent)s or m.shared)
            and m.state = 'active' and m.embedding is not null
        order by (m.embedding <=> %(embedding)s) + 0 limit 10""",
    "hnsw scan": """select m.place from memory.memories as m
        where m.user_id = %(user)s and (m.agent_id = %(agent)s or m.shared) and m.state = 'active'
        order by m.embedding <=> %(embedding)s limit 10""",
    "postings": """select w.word, w.place, w.weight from memory.words as w
        where w.user_id = %(user)s and w.word = any (%(words)s)
            and w.agent_id in (%(agent)s, '*')""",
}


@dataclass(frozen=True, slots=True)
class Query:
    """One question to one tenant, with everything that any of the statements takes."""

    tenant: int
    question: int
    given: Mapping[str, Any]

    @property
    def keyword(self) -> LiteralString:
        """The keyword arm as memory._ranked routes it."""
        few = self.given["size"] <= 2000 and len(self.given["words"]) <= 40
        return KEYWORD_SMALL if few else KEYWORD_LARGE

    def statements(self) -> dict[str, LiteralString]:
        """By the name under which each is reported."""
        return {
            "raw_hnsw": PLAIN_VECTOR,
            "vector": VECTOR,
            "raw_keyword": PLAIN_KEYWORD,
            "keyword": self.keyword,
            "search": SEARCH,
            "keyword_search": KEYWORD_SEARCH,
        }


def queries(
    server: psycopg.Connection, population: Population, tenants: list[int], count: int
) -> list[Query]:
    """Questions that hold a word, put to the tenants in turn."""
    found: list[Query] = []
    for number, question in enumerate(population.questions):
        if len(found) == count:
            break
        row = server.execute(READ, {"query": question}).fetchone()
        if row is None or not row[0]:
            continue
        tenant = tenants[len(found) % len(tenants)]
        given = {
            "user": population.tenants[tenant].user,
            "agent": AGENT,
            "query": question,
            "embedding": vector_text(Embedding(population.question_vectors[number])),
            "words": row[0],
            "tsquery": row[1],
        }
        server.execute(IDENTITY, given)
        size = server.execute(SIZE, given).fetchone()
        found.append(Query(tenant, number, {**given, "size": size[0] if size else 0}))
    return found


def run(
    server: psycopg.Connection, statement: LiteralString, given: Mapping[str, Any]
) -> tuple[list[tuple[Any, ...]], float]:
    """The rows of one statement, and its seconds."""
    begun = time.perf_counter()
    rows = server.execute(statement, given).fetchall()
    return rows, time.perf_counter() - begun


def planning(server: psycopg.Connection, query: Query) -> dict[str, float]:
    """Milliseconds that each of the arms' statements takes to plan, under the policies."""
    server.execute(IDENTITY, query.given)
    found = {}
    for name, statement in PLANNED.items():
        explain: LiteralString = "explain (summary, format json) " + statement
        row = server.execute(explain, query.given).fetchone()
        assert row is not None
        plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
        found[name] = float(plan[0]["Planning Time"])
    return found
