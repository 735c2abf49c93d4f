"""The endpoint embedder against a real HTTP server: only what can be trusted comes back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from pydantic import SecretStr, ValidationError
from tests.server import embedding_endpoint as answers
from tests.server.embedding_endpoint import EmbeddingEndpoint

from memphant.embedding import EmbeddingError, EmbeddingSettings, build_embedder
from memphant.endpoint import EndpointEmbedder


@pytest.fixture
def endpoint() -> Iterator[EmbeddingEndpoint]:
    with EmbeddingEndpoint() as running:
        yield running


class Clients:
    """Embedders for one endpoint, closed at the end of the test."""

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        self._endpoint = endpoint
        self.made: list[EndpointEmbedder] = []

    def __call__(self, **changes: Any) -> EndpointEmbedder:
        plain: dict[str, Any] = {"base_url": self._endpoint.base_url, "model": "m", "retries": 0}
        self.made.append(EndpointEmbedder(EmbeddingSettings(**(plain | changes))))
        return self.made[-1]


@pytest_asyncio.fixture
async def client(endpoint: EmbeddingEndpoint) -> AsyncIterator[Clients]:
    clients = Clients(endpoint)
    yield clients
    for made in clients.made:
        await made.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off without the waiting."""
    monkeypatch.setattr("memphant.endpoint.FIRST_DELAY_S", 0.01)


async def test_vectors_have_length_one_and_follow_the_texts(client: Clients) -> None:
    a, b, c = await client().embed(["red apple", "blue sky", "red apple pie"], "passage")
    assert np.linalg.norm(a.vector) == pytest.approx(1)
    assert a.vector.dtype == np.float32
    assert a.vector @ c.vector > a.vector @ b.vector
    assert (a.windows, b.windows) == (1, 1)


async def test_texts_are_sent_in_batches_of_the_size_set(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    found = await client(batch=3).embed([f"text {i}" for i in range(7)], "passage")
    assert len(found) == 7
    assert [len(request.texts) for request in endpoint.requests] == [3, 3, 1]


async def test_no_texts_are_no_request(endpoint: EmbeddingEndpoint, client: Clients) -> None:
    assert await client().embed([], "passage") == []
    assert endpoint.requests == []


async def test_each_kind_gets_its_prefix_and_a_stored_one_is_part_of_the_name(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    embedder = client(query_prefix="query: ", passage_prefix="passage: ")
    await embedder.embed(["x"], "query")
    await embedder.embed(["x"], "passage")
    assert [request.texts for request in endpoint.requests] == [["query: x"], ["passage: x"]]
    assert embedder.name == "m (passage:)"


async def test_dimensions_are_sent_only_if_set(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    assert await client().probe() == 16
    assert "dimensions" not in endpoint.requests[-1].body
    asked = client(dimensions=8)
    assert (asked.dimensions, await asked.probe(), asked.name) == (8, 8, "m@8")
    assert endpoint.requests[-1].body["dimensions"] == 8


async def test_dimensions_are_unknown_before_the_endpoint_was_asked(client: Clients) -> None:
    with pytest.raises(RuntimeError, match=r"after probe"):
        _ = client().dimensions


async def test_vectors_of_other_dimensions_are_refused_for_good(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    endpoint.always(answers.Dimensions(12))
    with pytest.raises(EmbeddingError, match=r"expected .* 8 .* returned 12") as caught:
        await client(dimensions=8, retries=3).probe()
    assert caught.value.permanent
    assert len(endpoint.requests) == 1


async def test_a_model_that_changes_its_dimensions_later_is_refused(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    embedder = client()
    await embedder.probe()
    endpoint.always(answers.Dimensions(12))
    with pytest.raises(EmbeddingError, match=r"expected .* 16 .* returned 12"):
        await embedder.embed(["x"], "query")


async def test_vectors_listed_in_another_order_are_sorted_by_index(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    texts = ["one", "two", "three"]
    expected = await client().embed(texts, "passage")
    endpoint.always(answers.shuffled)
    found = await client().embed(texts, "passage")
    assert all(np.array_equal(a.vector, b.vector) for a, b in zip(expected, found, strict=True))


async def test_a_truncated_batch_is_an_error_that_names_both_numbers(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    endpoint.always(answers.truncated)
    with pytest.raises(EmbeddingError, match="2 vectors for 3 texts"):
        await client().embed(["a", "b", "c"], "passage")


@pytest.mark.parametrize("number", [0.0, float("nan"), float("inf")])
async def test_a_vector_without_direction_is_refused(
    endpoint: EmbeddingEndpoint, client: Clients, number: float
) -> None:
    endpoint.always(answers.Filled(number))
    with pytest.raises(EmbeddingError, match="zero or not finite"):
        await client().embed(["x"], "passage")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_failure_is_tried_again(
    endpoint: EmbeddingEndpoint, client: Clients, status: int
) -> None:
    endpoint.next(answers.Status(status), answers.Status(status))
    assert len(await client(retries=2).embed(["x"], "query")) == 1
    assert len(endpoint.requests) == 3


@pytest.mark.usefixtures("impatient")
async def test_tries_are_bounded(endpoint: EmbeddingEndpoint, client: Clients) -> None:
    endpoint.always(answers.Status(500))
    with pytest.raises(EmbeddingError, match="answered 500") as caught:
        await client(retries=2).embed(["x"], "query")
    assert not caught.value.permanent
    assert len(endpoint.requests) == 3


async def test_retry_after_is_waited_for(endpoint: EmbeddingEndpoint, client: Clients) -> None:
    endpoint.next(answers.Status(429, retry_after="1"))
    begun = time.monotonic()
    await client(retries=1).embed(["x"], "query")
    assert time.monotonic() - begun >= 1  # our own first delay is at most half a second


@pytest.mark.parametrize("date", [True, False])
async def test_a_long_retry_after_is_handed_on_instead_of_waited_for(
    endpoint: EmbeddingEndpoint, client: Clients, date: bool
) -> None:
    value = formatdate(time.time() + 600, usegmt=True) if date else "600"
    endpoint.always(answers.Status(429, retry_after=value))
    with pytest.raises(EmbeddingError) as caught:
        await client(retries=3).embed(["x"], "query")
    assert caught.value.retry_after == pytest.approx(600, abs=30)
    assert len(endpoint.requests) == 1


async def test_a_used_up_quota_is_not_tried_again(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    endpoint.always(answers.Status(429, code="insufficient_quota"))
    with pytest.raises(EmbeddingError, match="insufficient_quota"):
        await client(retries=3).embed(["x"], "query")
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 400])
async def test_a_refusal_is_permanent_and_not_tried_again(
    endpoint: EmbeddingEndpoint, client: Clients, status: int
) -> None:
    endpoint.always(answers.Status(status))
    with pytest.raises(EmbeddingError, match=str(status)) as caught:
        await client(retries=3).embed(["x"], "query")
    assert caught.value.permanent
    assert len(endpoint.requests) == 1


async def test_no_error_quotes_the_text(endpoint: EmbeddingEndpoint, client: Clients) -> None:
    endpoint.always(answers.Status(400))
    with pytest.raises(EmbeddingError) as caught:
        await client().embed(["my secret"], "passage")
    assert "secret" not in caught.value.reason
    assert caught.value.__cause__ is None


async def test_a_hanging_endpoint_is_given_up(endpoint: EmbeddingEndpoint, client: Clients) -> None:
    endpoint.next(answers.hanging)
    with pytest.raises(EmbeddingError, match="in time") as caught:
        await client(timeout_s=0.3).embed(["x"], "query")
    assert not caught.value.permanent


async def test_nobody_listening_is_an_error_that_passes() -> None:
    with EmbeddingEndpoint() as gone:
        url = gone.base_url
    embedder = EndpointEmbedder(EmbeddingSettings(base_url=url, model="m", retries=0))
    with pytest.raises(EmbeddingError, match="cannot be reached") as caught:
        await embedder.embed(["x"], "query")
    assert not caught.value.permanent
    await embedder.close()


async def test_a_long_passage_is_embedded_in_windows_and_its_neighbours_whole(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    endpoint.always(answers.Limit(400))
    long = "many words about boats " * 50
    texts = ["short one", long, "short two", "short three"]
    found = await client().embed(texts, "passage")
    assert [part.windows for part in found] == [1, 4, 1, 1]
    assert np.linalg.norm(found[1].vector) == pytest.approx(1)
    alone = (await client().embed(["short two"], "passage"))[0]
    assert np.array_equal(found[2].vector, alone.vector)


async def test_of_a_long_query_the_beginning_counts(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    endpoint.always(answers.Limit(400))
    found = (await client().embed(["boats and ships " * 65_536], "query"))[0]
    assert found.windows == 1
    assert max(len(text) for request in endpoint.requests for text in request.texts) <= 32_000


async def test_an_endpoint_that_takes_no_length_at_all_is_not_asked_for_ever(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    endpoint.always(answers.Limit(0))
    with pytest.raises(EmbeddingError, match="too long") as caught:
        await client().embed(["word " * 1000], "passage")
    assert caught.value.permanent
    assert len(endpoint.requests) < 20


async def test_blank_texts_are_refused_before_they_are_sent(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    with pytest.raises(ValueError, match="text 1 is blank"):
        await client().embed(["x", " \x00\ud800\n"], "passage")
    assert endpoint.requests == []


async def test_what_json_cannot_carry_is_sent_as_a_space(
    endpoint: EmbeddingEndpoint, client: Clients
) -> None:
    await client().embed(["a\x00b\ud800c"], "passage")
    assert endpoint.requests[0].texts == ["a b c"]


async def test_the_key_of_the_environment_is_not_sent_to_another_server(
    endpoint: EmbeddingEndpoint, client: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for-openai-only")
    await client().embed(["x"], "query")
    await client(api_key=SecretStr("given")).embed(["x"], "query")
    sent = [request.headers["authorization"] for request in endpoint.requests]
    assert sent == ["Bearer none", "Bearer given"]


async def test_without_any_key_the_model_of_openai_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    embedder = build_embedder(EmbeddingSettings(model="text-embedding-3-small"))
    with pytest.raises(EmbeddingError, match="no API key") as caught:
        await embedder.embed(["x"], "query")
    assert caught.value.permanent


async def test_a_closed_embedder_says_so(client: Clients) -> None:
    embedder = client()
    await embedder.close()
    with pytest.raises(EmbeddingError, match="closed"):
        await embedder.embed(["x"], "query")


def test_an_address_without_a_model_is_a_mistake_in_the_settings() -> None:
    with pytest.raises(ValidationError, match="base_url needs model"):
        EmbeddingSettings(base_url="http://127.0.0.1/v1")
