"""Nobody waits for a model that has just kept others waiting."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.server import embedding_endpoint as answers
from tests.server.embedding_endpoint import EmbeddingEndpoint

from memphant import breaker
from memphant.breaker import Breaker
from memphant.embedding import EmbeddingError, EmbeddingSettings
from memphant.endpoint import EndpointEmbedder


@pytest.fixture
def endpoint() -> Iterator[EmbeddingEndpoint]:
    with EmbeddingEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def guarded(
    endpoint: EmbeddingEndpoint, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Breaker]:
    monkeypatch.setattr(breaker, "SLOW_SECONDS", 0.2)
    monkeypatch.setattr(breaker, "REST_SECONDS", 0.6)
    settings = EmbeddingSettings(base_url=endpoint.base_url, model="m", retries=0, timeout_s=0.4)
    embedder = EndpointEmbedder(settings)
    await embedder.probe()
    endpoint.requests.clear()
    yield Breaker(embedder)
    await embedder.close()


async def fails(guarded: Breaker) -> float:
    """Seconds until the refusal."""
    begun = time.monotonic()
    with pytest.raises(EmbeddingError):
        await guarded.embed_now(["x"], "query")
    return time.monotonic() - begun


async def test_after_a_time_out_nobody_waits_until_one_has_tried(
    endpoint: EmbeddingEndpoint, guarded: Breaker
) -> None:
    endpoint.next(answers.hanging, answers.hanging)
    assert await fails(guarded) >= 0.4
    assert await fails(guarded) < 0.2
    assert len(endpoint.requests) == 1
    await asyncio.sleep(0.7)
    one = asyncio.create_task(fails(guarded))
    await asyncio.sleep(0.05)
    assert await fails(guarded) < 0.2
    assert await one >= 0.4
    assert len(endpoint.requests) == 2
    await asyncio.sleep(0.7)
    assert len(await guarded.embed_now(["x"], "query")) == 1
    assert len(await guarded.embed_now(["x"], "query")) == 1


async def test_a_quick_failure_is_asked_again_by_the_next_caller(
    endpoint: EmbeddingEndpoint, guarded: Breaker
) -> None:
    endpoint.next(answers.Status(500))
    await fails(guarded)
    assert len(await guarded.embed_now(["x"], "query")) == 1


async def test_retry_after_is_obeyed_for_all(endpoint: EmbeddingEndpoint, guarded: Breaker) -> None:
    endpoint.next(answers.Status(429, retry_after="1"))
    assert await fails(guarded) < 0.4
    await fails(guarded)
    assert len(endpoint.requests) == 1
    await asyncio.sleep(1.1)
    assert len(await guarded.embed_now(["x"], "query")) == 1


async def test_the_worker_asks_all_the_same_and_its_answer_ends_the_rest(
    endpoint: EmbeddingEndpoint, guarded: Breaker
) -> None:
    endpoint.next(answers.hanging)
    await fails(guarded)
    assert len(await guarded.embed(["x"], "passage")) == 1
    assert len(await guarded.embed_now(["x"], "query")) == 1
