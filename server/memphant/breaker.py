"""Who asks a model that has just kept others waiting in vain is told so at once."""

import time
from collections.abc import Sequence

from memphant.embedding import Embedder, Embedding, EmbeddingError, Kind

SLOW_SECONDS = 1.0
"""A failure that took less costs nobody anything: the next caller asks again."""
REST_SECONDS = 10.0
LONGEST_REST_SECONDS = 60.0


class Breaker:
    """Stands before an embedder.

    Saves and searches go through `embed_now`: once a call has failed slowly, or the endpoint said
    when to come back, they are refused for a while instead of each waiting for its own time-out.
    Then one of them tries. The worker, for whom nobody waits, uses `embed`, and ends the rest as
    soon as it has an answer.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rests_until = 0.0
        self._reason = ""

    async def embed_now(self, texts: Sequence[str], kind: Kind) -> list[Embedding]:
        """As `embed`, but EmbeddingError at once while the model rests."""
        now = time.monotonic()
        if now < self._rests_until:
            raise EmbeddingError(f"{self._reason}, a moment ago")
        if self._reason:
            # this call finds out for all; the others do not wait with it
            self._rests_until = now + REST_SECONDS
        return await self.embed(texts, kind)

    async def embed(self, texts: Sequence[str], kind: Kind) -> list[Embedding]:
        """What the embedder says; remembers whether it is worth waiting for."""
        begun = time.monotonic()
        try:
            found = await self._embedder.embed(texts, kind)
        except EmbeddingError as error:
            now = time.monotonic()
            if error.retry_after or (not error.permanent and now - begun > SLOW_SECONDS):
                rest = error.retry_after or REST_SECONDS
                self._rests_until = now + min(LONGEST_REST_SECONDS, rest)
                self._reason = error.reason
            else:
                self._answers()
            raise
        self._answers()
        return found

    def _answers(self) -> None:
        self._rests_until, self._reason = 0.0, ""
