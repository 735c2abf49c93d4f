"""Many tenants, and a large one: what a search plans, and which way it goes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.conftest import TEST_SERVER
from tests.sql.calling import Caller, scalar
from tests.sql.plans import explain_vector_arm

from memphant import schema

if TYPE_CHECKING:
    from tests.conftest import TestDatabase

TENANTS = 5_000
ROWS = 100_000


@pytest.fixture
def small(new_database: "Callable[[str | None], TestDatabase]") -> "TestDatabase":
    """A database whose model has eight dimensions, so that many vectors are indexed soon."""
    database = new_database(None)
    with database.connect(database.owner) as owner:
        schema.install(owner, schema.InstallOptions("small", 8, server_role=TEST_SERVER))
        for name, value in (("hnsw.m", 4), ("hnsw.ef_construction", 8)):
            owner.execute(
                "update memory.settings set value = to_jsonb(%s::int) where name = %s",
                (value, name),
            )
        owner.execute("select memory.use_model('sparse', 8)")
    return database


def indexes(connection: psycopg.Connection) -> int:
    """How many indexes the schema has."""
    return int(
        scalar(
            connection,
            "select count(*) from pg_indexes where schemaname = 'memory'",
        )
    )


def test_r35_planning_does_not_depend_on_the_number_of_tenants(
    small: "TestDatabase",
) -> None:
    with small.connect(small.server) as server:
        before = indexes(server)
        with server.transaction():
            # what is planned depends on the numbers only: no words, no vectors
            for tenant in range(TENANTS):
                server.execute(
                    "select set_config('memory.user_id', %s, true), "
                    "set_config('memory.agent_id', 'bot', true)",
                    (f"tenant {tenant}",),
                )
                server.execute(
                    """insert into memory.memories (
                        user_id, agent_id, id, content, content_hash, keywords, place, memory_type,
                        source, confidence, occurred_at, valid_from, created_at, updated_at)
                    select current_setting('memory.user_id'), 'bot', gen_random_uuid(), 'row ' || n,
                        sha256(convert_to('row ' || n, 'UTF8')), '',
                        nextval('memory.conversation_numbers') * 1048576, 'fact', 'user', 0.8,
                        now(), now(), now(), now()
                    from generate_series(1, 20) as n"""
                )
        with small.connect(small.owner) as owner:
            owner.execute("analyze memory.memories")
        Caller(server, "tenant 7").save("the heron is a bird")
        planning = []
        for _ in range(5):
            plan = server.execute(
                """explain (summary, format json)
                select s.content from memory.search('tenant 7', 'bot', 'heron') as s"""
            ).fetchone()
            assert plan is not None
            planning.append(plan[0][0]["Planning Time"])
            # the statements inside are planned in here as well
            assert Caller(server, "tenant 7").found("heron") == ["the heron is a bird"]
        inner = explain_vector_arm(server, "tenant 7", "[1,0,0,0,0,0,0,0]", summary=True)
        planning.append(float(inner.rsplit("Planning Time: ", 1)[1].split(" ms")[0]))
        assert min(planning[:5]) < 5
        assert planning[-1] < 5
        assert indexes(server) == before


def test_r36_a_large_tenant_is_searched_through_the_index_of_its_partition(
    small: "TestDatabase",
) -> None:
    with small.connect(small.server) as server:
        alice = Caller(server, "alice")
        scattered = "select array_agg(hashint8(n * 997::bigint + i) / 2147483648.0)"
        alice.fill(
            ROWS, "'row ' || n", f"({scattered} from generate_series(1, 8) as i)::public.vector"
        )
        with small.connect(small.owner) as owner:
            owner.execute("analyze memory.memories")
        query = "[0.1,0.2,0.3,0.4,0.1,0.2,0.3,0.4]"
        steps: dict[str, str] = dict(
            server.execute(
                "select step, finding from memory.explain_search('alice', 'bot', 'row', %s)",
                (query,),
            ).fetchall()
        )
        assert steps["vector arm"].startswith("HNSW with ef_search")
        plan = explain_vector_arm(server, "alice", query)
        assert plan.count("Index Scan using memories_") == 1
        assert "Order By: (embedding <=>" in plan
        assert "Seq Scan" not in plan
