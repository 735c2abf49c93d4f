"""The model of a database: chosen while there are no vectors, and never mixed with another."""

from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.sql import catalog
from tests.sql.calling import Caller, call, refused, scalar, vector
from tests.sql.plans import explain_vector_arm

from memphant import schema

if TYPE_CHECKING:
    from tests.conftest import TestDatabase


def use(owner: psycopg.Connection, name: str, dimensions: int) -> str:
    """What memory.use_model says."""
    return str(call(owner, "use_model", name=name, dimensions=dimensions)[0]["use_model"])


def test_r60_a_fresh_database_takes_a_model_of_any_dimensions(
    empty: "TestDatabase", options: schema.InstallOptions
) -> None:
    with empty.connect(empty.owner) as owner, empty.connect(empty.server) as server:
        schema.install(owner, schema.InstallOptions("large", 768, options.server_role))
        alice = Caller(server, "alice")
        alice.save("text", embedding=vector(1, dimensions=768))
        assert alice.found("other", embedding=vector(1, dimensions=768)) == ["text"]
        with refused("MP007"):
            alice.save("other", embedding=vector(1))


def test_r60_another_model_is_refused_while_vectors_are_stored_and_both_are_named(
    installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    with (
        installed.connect(installed.owner) as owner,
        installed.connect(installed.server) as server,
    ):
        Caller(server, "alice").save("text", embedding=vector(1))
        for name, dimensions in (("other", 768), ("other", 384), (options.model, 768)):
            with refused("MP007") as caught:
                use(owner, name, dimensions)
            message = str(caught.value)
            assert options.model in message
            assert name in message
            assert caught.value.diag.message_hint
        with refused("MP007"):
            schema.install(owner, schema.InstallOptions("other", 768))
        assert use(owner, options.model, 384) == "unchanged"
        assert Caller(server, "alice").found("x", embedding=vector(1)) == ["text"]


def test_another_model_is_taken_while_there_are_no_vectors(installed: "TestDatabase") -> None:
    with installed.connect(installed.owner) as owner:
        with installed.connect(installed.server) as server:
            Caller(server, "alice").save("not yet embedded")
        assert use(owner, "other", 8) == "chosen"
        assert use(owner, "other", 8) == "unchanged"
        with installed.connect(installed.server) as server:
            alice = Caller(server, "alice")
            alice.save("text", embedding=vector(1, dimensions=8))
            assert alice.found("x", embedding=vector(1, dimensions=8)) == ["text"]
            model = server.execute("select name, dimensions from memory.embedding_model").fetchall()
            assert model == [("other", 8)]


def test_the_model_survives_another_installation(
    installed: "TestDatabase", options: schema.InstallOptions
) -> None:
    with (
        installed.connect(installed.owner) as owner,
        installed.connect(installed.server) as server,
    ):
        Caller(server, "alice").save("text", embedding=vector(1))
        before = catalog.lines(owner, "select (e.*)::text from memory.embedding_model as e")
        schema.install(owner, options)
        after = catalog.lines(owner, "select (e.*)::text from memory.embedding_model as e")
        assert before == after


@pytest.mark.parametrize("dimensions", [0, -1, 4001, 16000])
def test_dimensions_that_no_index_holds_are_refused(
    installed: "TestDatabase", dimensions: int
) -> None:
    with installed.connect(installed.owner) as owner, refused("MP007"):
        use(owner, "other", dimensions)


def test_r37_a_model_of_3072_dimensions_has_an_index_that_is_used(
    empty: "TestDatabase", options: schema.InstallOptions
) -> None:
    with empty.connect(empty.owner) as owner, empty.connect(empty.server) as server:
        schema.install(owner, schema.InstallOptions("huge", 3072, options.server_role, 2))
        definitions = catalog.lines(
            owner, "select indexdef from pg_indexes where indexdef like '%hnsw%'"
        )
        assert len(definitions) == 3
        assert all("halfvec_cosine_ops" in definition for definition in definitions)
        alice = Caller(server, "alice")
        part = "(array[1.0, n] || array_fill(0.0, array[3070]))::vector"
        alice.fill(300, "'row ' || n", f"l2_normalize({part})")
        plan = explain_vector_arm(server, "alice", vector(1, 7, dimensions=3072))
        assert "Index Scan using memories_" in plan
        assert "embedding <=>" in plan
        assert "Sort" not in plan
        found = alice.found("x", embedding=vector(1, 7, dimensions=3072))
        assert "row 7" in found


@pytest.mark.parametrize("run", ["first", "tenth"])
def test_the_vector_arm_of_a_large_tenant_scans_the_index_of_its_partition_only(
    installed: "TestDatabase", run: str
) -> None:
    with installed.connect(installed.server) as server:
        alice = Caller(server, "alice")
        alice.fill(200, "'row ' || n", f"'{vector(1)}'")
        for _ in range({"first": 0, "tenth": 9}[run]):
            alice.search("x", embedding=vector(1))
        plan = explain_vector_arm(server, "alice", vector(1))
        assert plan.count("Index Scan using memories_") == 1
        assert "Order By: (embedding <=>" in plan


@pytest.mark.parametrize(("dimensions", "storage"), [(384, "p"), (3000, "p"), (3001, "e")])
def test_vectors_are_stored_plain_while_they_fit_a_page(
    installed: "TestDatabase", dimensions: int, storage: str
) -> None:
    with installed.connect(installed.owner) as owner:
        use(owner, "other", dimensions)
        found = scalar(
            owner,
            """select a.attstorage::text from pg_attribute as a
            where a.attrelid = 'memory.memories'::regclass and a.attname = 'embedding'""",
        )
        assert found == storage
