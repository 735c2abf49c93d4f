"""What a latency run tells besides its medians: disk, where the time goes, and a table."""

from __future__ import annotations

from typing import Any, LiteralString

from bench import arms
from bench.throwaway import Throwaway

EXPLAINED = 30  # searches

# partitions are counted under the table or index that they belong to
SIZES: LiteralString = """
select coalesce(root.relname, c.relname),
    sum(pg_relation_size(c.oid)
        + coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0))
from pg_class as c
left join pg_inherits as i on i.inhrelid = c.oid
left join pg_class as root on root.oid = i.inhparent
where c.relnamespace = any (array['memory', 'bench']::regnamespace[]) and c.relkind in ('r', 'i')
group by 1
"""
OURS = {"words": "memory.words", "memories": "memory.memories"}
FUNCTIONS: LiteralString = """
select f.funcname, f.calls, f.self_time
from pg_stat_user_functions as f where f.schemaname = 'memory' and f.self_time > 0
order by f.self_time desc
"""


def disk(throwaway: Throwaway, memories: int) -> dict[str, int]:
    """Bytes per memory of each table and index; words and memories also with their indexes."""
    with throwaway.connect(throwaway.superuser) as admin:
        sizes = {name: int(size) for name, size in admin.execute(SIZES).fetchall()}
        totals = {}
        for name, table_name in OURS.items():
            row = admin.execute(
                """select sum(pg_total_relation_size(t.relid))
                from pg_partition_tree(%s::regclass) as t where t.isleaf""",
                (table_name,),
            ).fetchone()
            assert row is not None
            totals[f"{name}, all of it"] = int(row[0])
        postings = admin.execute("select count(*) from memory.words").fetchone()
    assert postings is not None
    print(f"postings per memory: {postings[0] / memories:.1f}")
    return {
        name: round(size / memories)
        for name, size in sorted({**sizes, **totals}.items(), key=lambda item: -item[1])
        if size / memories >= 1
    }


def explain(throwaway: Throwaway, size: int, queries: list[arms.Query]) -> str:
    """The functions in which a whole search spends its time, by Postgres's own statistics."""
    assert throwaway.superuser is not None
    with throwaway.connect(throwaway.superuser) as admin:
        admin.execute("grant set on parameter track_functions to memphant_server")
        admin.execute("select pg_stat_reset()")
        searches = 0
        with throwaway.connect() as server:
            server.execute("select memory._warm()")
            server.execute("set track_functions = 'all'")
            for query in queries[:EXPLAINED]:
                server.execute(arms.SEARCH, query.given).fetchall()
                searches += 1
            server.execute("select pg_stat_force_next_flush()")
            server.execute("select 1")
        rows = admin.execute(FUNCTIONS).fetchall()
    lines = [f"a search of {size} memories, by function: ms of its own, calls"]
    lines += [
        f"  {name:<24}{own / searches:>9.3f}{calls / searches:>8.1f}"
        for name, calls, own in rows
        if own / searches >= 0.005
    ]
    return "\n".join(lines)


def table(report: dict[str, Any]) -> str:
    """The figures as lines for a terminal."""
    columns = {
        "recall": "recall@10",
        "plain": "raw_recall@10",
        "vector": "vector_ms_p50",
        "raw": "raw_hnsw_ms_p50",
        "ratio": "vector_ratio_to_raw",
        "keyword": "keyword_ms_p50",
        "raw ": "raw_keyword_ms_p50",
        "ratio ": "keyword_ratio_to_raw",
        "search": "search_ms_p50",
        "p95": "search_ms_p95",
        "ratio  ": "whole_ratio_to_raw",
        "no vec.": "keyword_search_ms_p50",
        "gin only": "raw_keyword_gin_only_ms_p50",
    }
    lines = ["rows".rjust(8) + "".join(name.strip().rjust(9) for name in columns)]
    for size, figures in report["classes"].items():
        lines.append(size.rjust(8) + "".join(f"{figures[k]:>9.2f}" for k in columns.values()))
    lines.append(f"planning: {report['planning_ms_by_statement']}")
    lines.append(f"bytes per memory: {report['bytes_per_memory']}")
    return "\n".join(lines)
