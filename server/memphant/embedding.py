"""Texts to vectors: the bundled model, or an endpoint that speaks the OpenAI protocol.

Importing this module loads neither a model nor a client; build_embedder only chooses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What no model can read: white space, U+0000 and half a surrogate pair. One that is something else:
_READABLE = re.compile("[^\\s\x00\ud800-\udfff]")

# What is searched for, and what is stored: many models embed the two differently.
Kind = Literal["query", "passage"]


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """One text's vector.

    vector: float32, of length 1.
    windows: pieces the text was cut into because it was longer than the model's limit; their
        vectors are averaged by length. A query is cut to the first window instead.
    """

    vector: NDArray[np.float32]
    windows: int = 1


class EmbeddingError(Exception):
    """No vectors could be had.

    reason: a few words, without any of the text.
    retry_after: seconds after which it is worth another try, if somebody said so.
    permanent: trying again is useless until the configuration changes.
    """

    def __init__(
        self, reason: str, *, retry_after: float | None = None, permanent: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.permanent = permanent


class Embedder(Protocol):
    """What the store needs of a model. Safe for concurrent use within one event loop."""

    @property
    def name(self) -> str:
        """The space that the vectors live in; vectors of two names must never be compared."""

    @property
    def dimensions(self) -> int:
        """Length of every vector. Of an endpoint: known after probe() or the first embed()."""

    async def embed(self, texts: Sequence[str], kind: Kind) -> list[Embedding]:
        """One embedding per text, in the same order.

        Raises ValueError if a text is blank, EmbeddingError if the model cannot answer.
        """

    async def close(self) -> None:
        """Give up threads and connections. Whoever still waits gets an EmbeddingError."""


class EmbeddingSettings(BaseModel):
    """Which model embeds. With neither base_url nor model it is the bundled one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str | None = Field(default=None, description="of the endpoint, up to and with /v1")
    model: str | None = Field(default=None, description="name of the model at the endpoint")
    api_key: SecretStr | None = None
    dimensions: int | None = Field(
        default=None,
        ge=1,
        le=16_000,
        description="asked of the endpoint; default: what the model gives",
    )
    timeout_s: float = Field(
        default=30, gt=0, le=600, description="seconds for one answer, retries included"
    )
    retries: int = Field(default=3, ge=0, le=10, description="further tries after the first fails")
    batch: int = Field(default=64, ge=1, le=2048, description="texts in one request")
    query_prefix: str = Field(default="", description="put before what is searched for")
    passage_prefix: str = Field(default="", description="put before what is stored")

    @model_validator(mode="after")
    def _endpoint_has_model(self) -> EmbeddingSettings:
        if self.base_url and not self.model:
            raise ValueError("base_url needs model: the name of the model at the endpoint")
        return self


def build_embedder(settings: EmbeddingSettings) -> Embedder:
    """The embedder that the settings ask for; it loads and connects at its first use.

    A model without base_url is one of OpenAI's own.
    """
    if settings.model:
        from memphant.endpoint import EndpointEmbedder

        return EndpointEmbedder(settings)
    from memphant.bundled import BundledEmbedder

    return BundledEmbedder()


def refuse_blank(texts: Sequence[str]) -> None:
    """Raise ValueError, naming the position, if a text has nothing in it to embed."""
    for index, text in enumerate(texts):
        if not _READABLE.search(text):
            raise ValueError(f"text {index} is blank: there is nothing to embed")
