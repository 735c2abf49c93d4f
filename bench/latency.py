"""Latency of search by size of tenant: python bench/latency.py --rows 200000 --json FILE

Fills a throwaway cluster with tenants of four sizes (tenants.py) and asks each class the same
kind of questions, as the server's role under row-level security. Every figure of ours stands
beside the plain one (arms.py), measured in turn within the same loop, so the ratios hold whatever
else the machine does. Classes are named by the number of their tenants' rows. Of each:

  recall@10             of the vector arm against comparing everything
  raw_recall@10         of the plain vector query, over all tenants
  vector_ms_p50         the vector arm for ten, its choice of a way included
  keyword_ms_p50        the keyword arm by itself, neighbours included
  search_ms_p50, _p95   memory.search with a vector; keyword_search_ms_p50: without
  raw_hnsw_ms_p50       plain: nearest in one table by HNSW, all tenants together
  raw_keyword_ms_p50    plain: GIN @@ and ts_rank within the tenant, where the planner has an index
                        on the tenant too; raw_keyword_gin_only_ms_p50: without that index
  *_ratio_to_raw        ours over plain; whole_…: the search over both plain queries

Also told: planning time of the arms' statements (planning_ms is the slowest one's) and bytes per
memory of every table and index. --explain prints where the time of a whole search goes.
The sets are read from --data-dir and are no part of the project; without them nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import psycopg
from bench import arms, asking, staging
from bench.exact import Exact
from bench.metrics import percentile
from bench.report import disk, explain, table
from bench.tenants import NOISE, Population, populate
from bench.throwaway import Throwaway, open_database
from bench.vectors import bundled

SETTINGS = {
    "autovacuum": "off",  # it would run in the middle of a measurement
    "maintenance_work_mem": "1GB",
    "max_wal_senders": "0",
    "max_wal_size": "8GB",
    "wal_level": "minimal",
}
SHOWN_SETTINGS = ("server_version", "shared_buffers", "work_mem", "jit", "effective_cache_size")
TENANTS = 20  # asked of each class
WARMING = 5
GIN_ONLY_QUERIES = 20

Report = dict[str, Any]


def measure_class(
    server: psycopg.Connection, exact: Exact, queries: list[arms.Query], rounds: int
) -> tuple[Report, list[float]]:
    """The figures of one class, and the seconds of its plain vector queries.

    Of each statement and query the median over the rounds counts, then the percentile over queries.
    """
    seconds: dict[str, list[list[float]]] = {}
    recalls = []
    nearest: list[list[int]] = []
    for query in queries[:WARMING]:
        for statement in query.statements().values():
            arms.run(server, statement, query.given)
    for turn in range(rounds):
        for at, query in enumerate(queries):
            server.execute(arms.IDENTITY, query.given)
            statements = list(query.statements().items())
            # no statement always runs right after the same other one
            first = (at + turn) % len(statements)
            for name, statement in statements[first:] + statements[:first]:
                rows, took = arms.run(server, statement, query.given)
                seconds.setdefault(name, [[] for _ in queries])[at].append(took)
                if name == "raw_hnsw" and turn == 0:
                    nearest.append([row[0] for row in rows])
                if name == "vector" and turn == 0:
                    recalls.append(
                        exact.recall(query.tenant, query.question, [row[0] for row in rows])
                    )
    typical = {
        name: [float(np.median(of_query)) for of_query in of_queries]
        for name, of_queries in seconds.items()
    }
    # by itself: it reads so much that whatever comes next finds a cold cache
    typical["raw_keyword_gin_only"] = [
        arms.run(server, arms.PLAIN_GIN_ONLY, query.given)[1]
        for query in queries[:GIN_ONLY_QUERIES]
    ]
    medians = {name: percentile(took, 50) for name, took in typical.items()}
    raw = medians["raw_hnsw"] + medians["raw_keyword"]
    figures = {
        "recall@10": round(float(np.mean(recalls)), 4),
        "raw_recall@10": round(exact.recall_of_all([q.question for q in queries], nearest), 4),
        **{f"{name}_ms_p50": median for name, median in medians.items()},
        "search_ms_p95": percentile(typical["search"], 95),
        "vector_ratio_to_raw": round(medians["vector"] / medians["raw_hnsw"], 2),
        "keyword_ratio_to_raw": round(medians["keyword"] / medians["raw_keyword"], 2),
        "whole_ratio_to_raw": round(medians["search"] / raw, 2),
        "queries": len(queries),
        "words_of_a_query": round(float(np.mean([len(q.given["words"]) for q in queries])), 1),
    }
    return figures, typical["raw_hnsw"]


def measure(
    throwaway: Throwaway, population: Population, count: int, rounds: int, explained: bool
) -> Report:
    """Everything that the file holds but what it is about."""
    exact = Exact(population)
    classes: Report = {}
    raw: list[float] = []
    plans: dict[str, list[float]] = {}
    with throwaway.connect() as server:
        server.execute("select memory._warm()")
        for size, tenants in population.classes().items():
            queries = arms.queries(server, population, tenants[:TENANTS], count)
            classes[str(size)], seconds = measure_class(server, exact, queries, rounds)
            raw += seconds
            for query in queries[:10]:
                for name, took in arms.planning(server, query).items():
                    plans.setdefault(name, []).append(took)
            print(f"{size}: {json.dumps(classes[str(size)])}", file=sys.stderr)
            if explained:
                print(explain(throwaway, size, queries))
    planning = {name: round(float(np.median(took)), 3) for name, took in plans.items()}
    return {
        "rows": len(population.contents),
        "classes": classes,
        "raw_hnsw_ms_p50": percentile(raw, 50),
        "planning_ms": max(planning.values()),
        "planning_ms_by_statement": planning,
        "bytes_per_memory": disk(throwaway, len(population.contents)),
    }


def about(throwaway: Throwaway) -> Report:
    """The machine and the server parameters that matter for the figures."""
    with throwaway.connect() as server:
        rows = server.execute(
            "select name, current_setting(name) from unnest(%s::text[]) as name",
            (list(SHOWN_SETTINGS),),
        ).fetchall()
        vector = server.execute(
            "select extversion from pg_extension where extname = 'vector'"
        ).fetchone()
    return {
        **dict(rows),
        "pgvector": vector[0] if vector else None,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000, help="memories of all tenants")
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument(
        "--data-dir", type=Path, default=Path("../shared/data"), help="where the sets are"
    )
    parser.add_argument("--queries", type=int, default=100, help="questions to each class")
    parser.add_argument("--noise", type=float, default=NOISE, help="length added to each vector")
    parser.add_argument("--rounds", type=int, default=3, help="times that each is asked")
    parser.add_argument("--shared-buffers", default="2GB", help="of the throwaway cluster")
    parser.add_argument("--explain", action="store_true", help="print where a search's time goes")
    given = parser.parse_args()
    begun = time.monotonic()
    embedder, vectors = bundled()
    settings = {**SETTINGS, "shared_buffers": given.shared_buffers}
    with open_database(embedder, settings) as throwaway:
        try:
            population = populate(
                given.rows,
                given.data_dir,
                vectors,
                lambda texts: asking.indexed_texts(throwaway, texts),
                given.noise,
            )
        except FileNotFoundError as error:
            print(f"skipped: {error}")
            return
        took = staging.load(throwaway, population)
        report = measure(throwaway, population, given.queries, given.rounds, given.explain)
        report["about"] = {
            **about(throwaway),
            "model": embedder.name,
            "noise": given.noise,
            "load_seconds": took,
            "seconds": round(time.monotonic() - begun, 1),
        }
    given.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
