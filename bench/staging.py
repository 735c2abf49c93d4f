"""Tenants into the database in bulk: the same rows as memory.save_list makes, without its calls.

Rows are copied into a staging table and drafted by memory._draft, which is what a save does with
each item; postings are made set by set instead of by trigger; the indexes on vectors are built
afterwards from their own definitions. `check` saves a sample the slow way and compares.

Beside them stands the plain table that ours is compared with: no partitions, no row-level
security, the same vectors and words under HNSW and GIN indexes with their defaults.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import LiteralString

import numpy as np
import psycopg
from bench.tenants import Population
from bench.throwaway import Throwaway
from psycopg import sql

from memphant.embedding import Embedding
from memphant.store import vector_text

AGENT = "bench"
CHUNK, LOADERS = 500, 2
SAMPLE = 50
CHECKER = "tenant-check"

PREPARE: LiteralString = """
create schema bench;
create unlogged table bench.staging (
    n bigint primary key, user_id text, conversation bigint, turn integer, content text,
    embedding halfvec);
create function bench.item(s bench.staging) returns jsonb language sql stable as $$
    select jsonb_build_object(
        'content', s.content, 'conversation_id', 'c' || s.conversation,
        'occurred_at', to_char(now() - s.conversation % 365 * interval '1 day', 'YYYY-MM-DD'))
$$;
create function bench.load(low bigint, high bigint) returns void language plpgsql as $$
declare
    s bench.staging;
    d memory.memories;
begin
    for s in select t.* from bench.staging as t where t.n >= low and t.n < high order by t.n loop
        d := memory._draft(s.user_id, 'bench', bench.item(s), s.embedding, 'UTC');
        d.place := s.conversation * 1048576 + s.turn;
        d.shared := coalesce(d.shared, false);
        insert into memory.memories values (d.*);
    end loop;
    -- as memory._post_words does row by row
    insert into memory.words (user_id, word, place, weight, agent_id)
    select m.user_id, k.lexeme, m.place,
        cardinality(k.positions) * 2
            / (cardinality(k.positions) + 0.5 + 0.5 * k.length / 40.0),
        m.agent_id
    from bench.staging as t
    join memory.memories as m
        on m.user_id = t.user_id and m.place = t.conversation * 1048576 + t.turn
    cross join lateral (
        select u.lexeme, u.positions, sum(cardinality(u.positions)) over () as length
        from unnest(m.keywords) as u (lexeme, positions, weights)) as k
    where t.n >= low and t.n < high;
end;
$$;
"""
SETTLE: LiteralString = """
insert into memory.users (user_id) select distinct s.user_id from bench.staging as s;
insert into memory.conversations (user_id, agent_id, conversation_id, number, turns)
select s.user_id, 'bench', 'c' || s.conversation, s.conversation, count(*)
from bench.staging as s
group by s.user_id, s.conversation;
select setval('memory.conversation_numbers', max(s.conversation) + 1) from bench.staging as s;
"""
PLAIN: LiteralString = """
create table bench.plain as
select s.n as id, s.user_id, s.content, m.keywords as tsv, m.embedding
from bench.staging as s
join memory.memories as m
    on m.user_id = s.user_id and m.place = s.conversation * 1048576 + s.turn
order by s.n;
create index plain_user on bench.plain (user_id);
create index plain_words on bench.plain using gin (tsv);
create index plain_vectors on bench.plain using hnsw (embedding halfvec_cosine_ops);
drop table bench.staging cascade;
grant usage on schema bench to memphant_server;
grant select on bench.plain to memphant_server;
"""
SAVED: LiteralString = """
select to_jsonb(m) - '{user_id,id,place,conversation_id,created_at,updated_at}'::text[],
    (select jsonb_agg(to_jsonb(w) - '{user_id,place}'::text[] order by w.word)
    from memory.words as w where w.user_id = m.user_id and w.place = m.place)
from memory.memories as m
where m.user_id = any (%s) and (%s::bigint[] is null or (m.place >> 20) = any (%s::bigint[]))
"""


def load(throwaway: Throwaway, population: Population) -> dict[str, float]:
    """Loads everything; the seconds of each step."""
    took: dict[str, float] = {}
    with _superuser(throwaway) as admin:
        with _timed("copy", took):
            admin.execute(PREPARE)
            _copy(admin, population)
        indexes = _drop_vector_indexes(admin)
        with _timed("rows and words", took):
            _fill(throwaway, len(population.contents))
            admin.execute(SETTLE)
        with _timed("vector indexes", took):
            for definition in indexes:
                admin.execute(definition.encode())
        check(throwaway, admin, population)
        with _timed("plain table", took):
            admin.execute(PLAIN)
        with _timed("vacuum", took):
            admin.execute("vacuum analyze")
            admin.execute("checkpoint")
    return took


def check(throwaway: Throwaway, admin: psycopg.Connection, population: Population) -> None:
    """Saves a sample through memory.save_list. Raises RuntimeError where it makes other rows."""
    conversations = sorted(set(population.conversation[:SAMPLE].tolist()))
    sample = np.flatnonzero(np.isin(population.conversation, conversations)).tolist()
    vectors = [vector_text(Embedding(population.vectors[n])) for n in sample]
    with throwaway.connect() as server:
        server.execute(
            """select from memory.save_list(
                user_id => %s, agent_id => %s, items => %s, embeddings => %s)""",
            (
                CHECKER,
                AGENT,
                json.dumps([_item(admin, n) for n in sample]),
                "{" + ",".join(f'"{vector}"' for vector in vectors) + "}",
            ),
        )
    users = sorted({population.tenants[population.owner[n]].user for n in sample})
    ours = admin.execute(SAVED, (users, conversations, conversations)).fetchall()
    loaded = {row[0]["content"]: row for row in ours}
    saved = admin.execute(SAVED, ([CHECKER], None, None)).fetchall()
    for row in saved:
        if row != loaded.get(row[0]["content"]):
            raise RuntimeError(
                "bench/staging.py makes other rows than memory.save_list:\n"
                f"{loaded.get(row[0]['content'])}\n{row}"
            )
    print(f"checked: {len(saved)} rows are as memory.save_list makes them", file=sys.stderr)
    for table in ("memories", "words", "conversations", "users"):
        name = sql.Identifier(table)
        admin.execute(sql.SQL("delete from memory.{} where user_id = %s").format(name), (CHECKER,))


def _item(admin: psycopg.Connection, number: int) -> object:
    row = admin.execute(
        "select bench.item(s) from bench.staging as s where s.n = %s", (number,)
    ).fetchone()
    assert row is not None
    return row[0]


@contextmanager
def _superuser(throwaway: Throwaway) -> Iterator[psycopg.Connection]:
    if throwaway.superuser is None:
        raise SystemExit("this bench fills a cluster of its own: unset MEMPHANT_DATABASE_URL")
    with throwaway.connect(throwaway.superuser) as connection:
        connection.execute("set session_replication_role = replica")
        yield connection


@contextmanager
def _timed(step: str, took: dict[str, float]) -> Iterator[None]:
    begun = time.monotonic()
    yield
    took[step] = round(time.monotonic() - begun, 1)
    print(f"{step}: {took[step]} s", file=sys.stderr)


def _copy(admin: psycopg.Connection, population: Population) -> None:
    columns = "n, user_id, conversation, turn, content, embedding"
    with (
        admin.cursor() as cursor,
        cursor.copy(f"copy bench.staging ({columns}) from stdin".encode()) as copy,
    ):
        for n, content in enumerate(population.contents):
            copy.write_row(
                (
                    n,
                    population.tenants[population.owner[n]].user,
                    int(population.conversation[n]),
                    int(population.turn[n]),
                    content,
                    vector_text(Embedding(population.vectors[n])),
                )
            )
    admin.execute("analyze bench.staging")


def _drop_vector_indexes(admin: psycopg.Connection) -> list[str]:
    """Drops the indexes of memory.memories that hold vectors; returns what creates them."""
    rows = admin.execute(
        """select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
        from pg_index as i
        where i.indrelid = 'memory.memories'::regclass
            and pg_get_indexdef(i.indexrelid) ~ '\\membedding\\M'"""
    ).fetchall()
    for name, _ in rows:
        admin.execute(f"drop index {name}".encode())
    return [definition.replace(" ON ONLY ", " ON ") for _, definition in rows]


def _fill(throwaway: Throwaway, rows: int) -> None:
    """Drafts and posts chunk after chunk, over a few connections at once."""
    local = threading.local()

    def work(low: int) -> None:
        if not hasattr(local, "connection"):
            local.connection = stack.enter_context(_superuser(throwaway))
        local.connection.execute("select bench.load(%s, %s)", (low, low + CHUNK))
        if low % (20 * CHUNK) == 0:
            print(f"loaded {low} of {rows}", file=sys.stderr)

    with ExitStack() as stack, ThreadPoolExecutor(LOADERS) as threads:
        try:
            list(threads.map(work, range(0, rows, CHUNK)))
        finally:
            threads.shutdown(cancel_futures=True)
