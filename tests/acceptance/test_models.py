"""Other models than the bundled one, behind a real endpoint; and what has no vector yet."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.acceptance.conftest import (
    NewDatabase,
    Serve,
    ServerProcess,
    connected,
    run,
    urls,
    wait_until,
)
from tests.conftest import TestDatabase
from tests.server.embedding_endpoint import Dimensions, EmbeddingEndpoint, Status


@pytest.fixture
def endpoint() -> Iterator[EmbeddingEndpoint]:
    with EmbeddingEndpoint(768) as endpoint:
        yield endpoint


def model(endpoint: EmbeddingEndpoint, name: str = "large") -> dict[str, object]:
    return {
        "embedding_base_url": endpoint.base_url,
        "embedding_model": name,
        "embedding_retries": 0,
    }


@pytest.mark.parametrize("dimensions", [768, 1536, 3072])
async def test_r37_r60_a_model_of_other_dimensions_works_on_a_fresh_database(
    new_database: NewDatabase, endpoint: EmbeddingEndpoint, serve: Serve, dimensions: int
) -> None:
    endpoint.always(Dimensions(dimensions))
    database = new_database(None)
    settings = {**urls(database), **model(endpoint)}
    installed = run("install", "--partitions", "2", **settings)
    assert installed.returncode == 0, installed.stderr
    assert f"{dimensions} dimensions" in installed.stdout
    server = serve(**settings)
    async with connected(server) as agent:
        saved = await agent.save("the green kettle whistles loudly")
        await agent.save("a completely different matter")
        assert "embedded" not in saved
        found = await agent.search("whistles kettle", explain=True)
        assert found[0]["id"] == saved["id"]
        assert found[0]["arms"]["vector"] > 0.3
    with psycopg.connect(database.owner) as connection:
        indexed = connection.execute(
            "select count(*) from pg_index as i join pg_class as c on c.oid = i.indexrelid"
            " join pg_am as a on a.oid = c.relam where a.amname = 'hnsw' and i.indisvalid"
            " and i.indrelid <> 'memory.memories'::regclass"
        ).fetchone()
    assert indexed == (2,)
    if dimensions != 768:
        return

    # r60: now the bundled model, and the same name with other dimensions
    refused = run("serve", port=0, **urls(database))
    assert refused.returncode == 1
    assert "holds vectors of large with 768 dimensions" in refused.stderr
    assert "multilingual-e5-small" in refused.stderr
    assert "384" in refused.stderr
    assert "MEMPHANT_EMBEDDING_" in refused.stderr
    reinstalled = run("install", **urls(database))
    assert reinstalled.returncode == 1
    assert "large with 768 dimensions" in reinstalled.stderr
    endpoint.always(Dimensions(512))
    refused = run("serve", port=0, **settings)
    assert refused.returncode == 1
    assert "large with 768" in refused.stderr
    assert "large with 512" in refused.stderr


def test_an_endpoint_that_does_not_answer_is_a_clear_start_error(
    template: str, new_database: NewDatabase, endpoint: EmbeddingEndpoint
) -> None:
    endpoint.always(Status(401))
    refused = run("serve", port=0, **urls(new_database(template)), **model(endpoint))
    assert refused.returncode == 1
    assert "The embedding endpoint does not answer" in refused.stderr
    assert "probe" not in refused.stderr


def embedded(database: TestDatabase, content: str) -> Callable[[], bool]:
    def has_vector() -> bool:
        with psycopg.connect(database.dba) as dba:
            row = dba.execute(
                "select embedding is not null from memory.memories where content = %s", (content,)
            ).fetchone()
        return bool(row and row[0])

    return has_vector


async def test_a_row_saved_in_psql_is_embedded_by_the_worker_and_found_by_meaning(
    local: ServerProcess, local_database: TestDatabase
) -> None:
    content = "I bought a new automobile for the family"
    with psycopg.connect(local_database.server, autocommit=True) as connection:
        connection.execute(
            "select id from memory.save(user_id => 'local', agent_id => 'default', content => %s)",
            (content,),
        )
    wait_until(embedded(local_database, content), 20, "the worker")
    async with connected(local) as agent:
        found = await agent.search("has anybody purchased a car?", limit=3, explain=True)
        assert content in [memory["content"] for memory in found]
        memory = next(memory for memory in found if memory["content"] == content)
        assert memory["arms"]["vector"] > memory["arms"].get("keyword", 0)
        assert "embedded" not in memory
    assert any(e["by"] == "worker" and e["stored"] == 1 for e in local.events("embed"))


async def test_while_the_endpoint_is_down_saves_succeed_and_are_embedded_later(
    new_database: NewDatabase, endpoint: EmbeddingEndpoint, serve: Serve
) -> None:
    database = new_database(None)
    settings = {**urls(database), **model(endpoint)}
    assert run("install", "--partitions", "2", **settings).returncode == 0
    server = serve(**settings)
    content = "down the bicycle leans against the wall"
    async with connected(server) as agent:
        endpoint.always(Status(500))
        reply = await agent.call("save_memory", content=content)
        assert reply["results"][0]["status"] == "saved"
        assert reply["results"][0]["memory"]["embedded"] is False
        assert "found by keywords until the worker has embedded it" in reply["notes"][0]
        assert content not in reply["notes"][0]
        found = await agent.call("search_memories", query="bicycle wall")
        assert [memory["content"] for memory in found["memories"]] == [content]
        assert found["searched"]["arms"] == ["keywords"]
        assert any("embedding model did not answer" in note for note in found["notes"])
        # a correction of the text works as well
        memory_id = found["memories"][0]["id"]
        reply = await agent.call("update_memory", memory_id=memory_id, content=f"{content} now")
        assert reply["memory"]["embedded"] is False
        endpoint.always(Dimensions(768))
        wait_until(embedded(database, f"{content} now"), 40, "the worker to try again")
        found = await agent.call("search_memories", query="bicycle wall", explain=True)
        assert found["memories"][0]["arms"]["vector"] > 0
        assert found["notes"] == []
    assert content not in server.log
