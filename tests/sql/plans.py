"""Plans of what runs inside functions."""

from typing import Any

import psycopg
from tests.sql import catalog
from tests.sql.calling import Caller


def explain_vector_arm(
    server: psycopg.Connection, user: str, query_vector: str, *, summary: bool = False
) -> str:
    """The plan of the very query of memory._vector_hnsw, under its own settings."""
    row: Any = server.execute(
        """select substring(p.prosrc from 'return query(.*?);'), p.proconfig
        from pg_proc as p where p.oid = 'memory._vector_hnsw'::regproc"""
    ).fetchone()
    body, settings = row
    given = {
        "user_id": f"'{user}'::text",
        "agent_id": "'bot'::text",
        "embedding": f"'{query_vector}'::public.halfvec",
        "candidates": "10",
    }
    names = catalog.lines(
        server,
        """select unnest(p.proargnames) from pg_proc as p
        where p.oid = 'memory._vector_hnsw'::regproc""",
    )
    for name in names:
        body = body.replace(f"_vector_hnsw.{name}", given.get(name, "null"))
    with server.transaction():
        Caller(server, user).identify()
        for setting in settings:
            name, value = setting.split("=", 1)
            server.execute("select set_config(%s, %s, true)", (name, value))
        explain = "explain (summary)" if summary else "explain"
        return "\n".join(catalog.lines(server, f"{explain} {body}"))
