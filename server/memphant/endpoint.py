"""Embeddings from an endpoint that speaks the OpenAI protocol: OpenAI, vLLM, TEI, Ollama, …

What an endpoint returns goes into a database and stays there, so every answer is checked: as
many vectors as texts, in order, of the expected length, finite. Retries are our own, so that
their bounds are: the client makes none. One answer, with all attempts for it, takes no longer than
timeout_s; who is asked to wait longer gives up at once.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memphant.embedding import Embedding, EmbeddingError, EmbeddingSettings, Kind, refuse_blank
from memphant.endpoint_answers import TooLongError, checked_vectors, explained

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import AsyncOpenAI

FIRST_DELAY_S = 0.5  # doubled after each failure, and shortened at random by up to a half
LONGEST_DELAY_S = 20.0

# A query is cut to one piece that the model takes; this is more than any model's first piece.
LONGEST_QUERY = 32_000
SHORTEST_PIECE = 64  # an endpoint that refuses even this as too long is not obeyed further

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")


class EndpointEmbedder:
    """One model at one endpoint. Connects at the first embed() or probe()."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        if not settings.model:
            raise ValueError("an endpoint needs the name of a model")
        self._settings = settings
        self._model = settings.model
        self._dimensions = settings.dimensions
        self._opened: AsyncOpenAI | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """Model, and what of the settings changes a stored vector. Not the address: it may move."""
        name = self._model
        if self._settings.dimensions:
            name += f"@{self._settings.dimensions}"
        if self._settings.passage_prefix:
            name += f" ({self._settings.passage_prefix.strip()})"
        return name

    @property
    def dimensions(self) -> int:
        """Length of every vector. RuntimeError if it is neither set nor asked for yet."""
        if self._dimensions is None:
            raise RuntimeError("the length of the vectors is known after probe()")
        return self._dimensions

    def expect(self, dimensions: int) -> None:
        """Take the dimensions from elsewhere, when the endpoint cannot be asked."""
        self._dimensions = self._dimensions or dimensions

    async def probe(self) -> int:
        """Ask for one vector, and so learn or confirm the dimensions. Raises EmbeddingError."""
        await self.embed(["probe"], "passage")
        return self.dimensions

    async def embed(self, texts: Sequence[str], kind: Kind) -> list[Embedding]:
        """One embedding per text, in the same order.

        A passage too long for the model is halved until it is taken, and the pieces' vectors
        averaged by length; of a query only the first piece counts. Raises ValueError if a text
        is blank, EmbeddingError if the endpoint gives no usable answer within the retries.
        """
        refuse_blank(texts)
        sent = [_UNSENDABLE.sub(" ", text) for text in texts]
        if kind == "query":
            sent = [text.strip()[:LONGEST_QUERY] for text in sent]
        found: list[Embedding] = []
        for start in range(0, len(sent), self._settings.batch):
            found += await self._batch(sent[start : start + self._settings.batch], kind)
        return found

    async def close(self) -> None:
        """Close the connections. embed() afterwards is an EmbeddingError."""
        self._closed = True
        if self._opened is not None:
            await self._opened.close()

    async def _batch(self, texts: list[str], kind: Kind) -> list[Embedding]:
        try:
            vectors = await self._request(texts, kind)
        except TooLongError:
            if len(texts) == 1:
                return [await self._halved(texts[0], kind)]
            middle = len(texts) // 2
            first = await self._batch(texts[:middle], kind)
            return first + await self._batch(texts[middle:], kind)
        return [Embedding(vector) for vector in vectors]

    async def _halved(self, text: str, kind: Kind) -> Embedding:
        import numpy as np

        if len(text) < 2 * SHORTEST_PIECE:
            raise EmbeddingError(
                f"the endpoint refuses {len(text)} characters as too long", permanent=True
            )
        middle = len(text) // 2
        # between two words if there is a gap close by
        gap = text.find(" ", middle, middle + SHORTEST_PIECE)
        pieces = [text[:gap], text[gap:]] if gap > 0 else [text[:middle], text[middle:]]
        if kind == "query":
            return (await self._batch(pieces[:1], kind))[0]
        pieces = [piece for piece in pieces if piece.strip()]
        parts = [(await self._batch([piece], kind))[0] for piece in pieces]
        lengths = [len(piece) for piece in pieces]
        mean = np.average(np.stack([part.vector for part in parts]), axis=0, weights=lengths)
        vector = (mean / np.linalg.norm(mean)).astype(np.float32)
        return Embedding(vector, sum(part.windows for part in parts))

    async def _request(self, texts: list[str], kind: Kind) -> list[NDArray[np.float32]]:
        prefixes = {"query": self._settings.query_prefix, "passage": self._settings.passage_prefix}
        arguments: dict[str, Any] = {
            "model": self._model,
            "input": [prefixes[kind] + text for text in texts],
            # asked for by name: the client's own default, base64, is unknown to some servers
            "encoding_format": "float",
        }
        if self._settings.dimensions is not None:
            arguments["dimensions"] = self._settings.dimensions
        answer = await self._answer(arguments)
        vectors = checked_vectors(answer, len(texts), self._dimensions)
        self._dimensions = len(vectors[0])
        return vectors

    async def _answer(self, arguments: dict[str, Any]) -> Any:
        client = await self._client()
        deadline = time.monotonic() + self._settings.timeout_s
        for failures in range(self._settings.retries + 1):
            left = deadline - time.monotonic()
            try:
                # the client's time-out is per read: an endpoint that trickles could hold us
                async with asyncio.timeout(left):
                    return await client.embeddings.create(**arguments)
            except Exception as error:
                failure, again = explained(error)
                wait = failure.retry_after
                if wait is None:
                    wait = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2**failures)
                    wait *= random.uniform(0.5, 1)
                late = time.monotonic() + wait >= deadline
                if not again or failures == self._settings.retries or late:
                    raise failure from None  # the cause may quote the text
            await asyncio.sleep(wait)
        raise AssertionError("the loop above returns or raises")

    async def _client(self) -> AsyncOpenAI:
        if self._closed:
            raise EmbeddingError("the embedder is closed")
        if self._opened is None:
            # a second of imports, kept off the event loop
            openai = await asyncio.to_thread(importlib.import_module, "openai")
            settings = self._settings
            key = settings.api_key.get_secret_value() if settings.api_key else None
            if key is None and settings.base_url:
                key = "none"  # else the client would send OPENAI_API_KEY to somebody else's server
            try:
                self._opened = self._opened or openai.AsyncOpenAI(
                    base_url=settings.base_url, api_key=key, max_retries=0
                )
            except openai.OpenAIError as error:
                raise EmbeddingError("no API key for the embeddings", permanent=True) from error
        return self._opened
