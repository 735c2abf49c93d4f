"""What an embeddings endpoint answered: vectors that can be trusted, or the reason in few words.

No reason quotes the endpoint's message: it may repeat the text that was sent.
"""

from __future__ import annotations

import email.utils
import re
import time
from typing import TYPE_CHECKING, Any

from memphant.embedding import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

# How servers say that a text, or a batch, is too much for them. llama.cpp says so with 500.
_TOO_LONG = re.compile(
    r"context.?(length|window|size)|too (long|large)|(max|exceed|less than|up to).{0,40}token"
    r"|token.{0,40}(max|exceed|limit)|(max|exceed).{0,40}(length|batch size)",
    re.IGNORECASE | re.DOTALL,
)
_TOO_LONG_STATUS = {400, 413, 422, 500}
_PASSING_STATUS = {408, 409, 425, 429}  # and every 5xx
_HARMLESS_CODE = re.compile(r"[a-z0-9_.-]{1,64}", re.IGNORECASE)


class TooLongError(EmbeddingError):
    """The endpoint takes no text, or no batch, of this size."""


def checked_vectors(answer: Any, count: int, dimensions: int | None) -> list[NDArray[np.float32]]:
    """The answer's vectors in the order of the texts, of length 1.

    dimensions: what is expected; None takes what the first vector has. Raises EmbeddingError if
    a vector is missing, of another length, or not a direction (zero, infinite, not a number).
    """
    import numpy as np

    data = getattr(answer, "data", None) or []
    if len(data) != count:
        raise EmbeddingError(f"the endpoint returned {len(data)} vectors for {count} texts")
    # some servers leave the index out; then the order is all there is
    if any(item.index is not None for item in data):
        data = sorted(data, key=lambda item: -1 if item.index is None else item.index)
        if [item.index for item in data] != list(range(count)):
            raise EmbeddingError("the endpoint numbered its vectors wrongly")
    vectors = []
    for item in data:
        try:
            vector = np.asarray(item.embedding, np.float64)
        except (TypeError, ValueError):
            vector = np.empty(0)
        if vector.ndim != 1 or not vector.size:
            raise EmbeddingError("the endpoint returned something that is not a vector")
        dimensions = dimensions or len(vector)
        if len(vector) != dimensions:
            raise EmbeddingError(
                f"expected vectors of {dimensions} dimensions, the endpoint returned {len(vector)}",
                permanent=True,
            )
        length = np.linalg.norm(vector)
        if not np.isfinite(length) or length == 0:
            raise EmbeddingError("the endpoint returned a vector that is zero or not finite")
        vectors.append((vector / length).astype(np.float32))
    return vectors


def explained(error: Exception) -> tuple[EmbeddingError, bool]:
    """What went wrong with a request, and whether the same request may succeed later."""
    import openai

    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return EmbeddingError("the endpoint did not answer in time"), True
    if isinstance(error, openai.APIConnectionError):
        return EmbeddingError("the endpoint cannot be reached"), True
    if not isinstance(error, openai.APIStatusError):
        kind = type(error).__name__
        return EmbeddingError(f"the endpoint's answer cannot be read ({kind})"), False
    status = error.status_code
    if status in _TOO_LONG_STATUS and _TOO_LONG.search(str(error)):
        return TooLongError("the text is too long for the endpoint", permanent=True), False
    reason = f"the endpoint answered {status}"
    if isinstance(error.code, str) and _HARMLESS_CODE.fullmatch(error.code):
        reason += f" ({error.code})"
    passing = status >= 500 or status in _PASSING_STATUS
    wait = retry_after(error.response.headers) if passing else None
    # a used-up quota comes as 429 too, but no wait of ours will fill it
    again = passing and error.code != "insufficient_quota"
    return EmbeddingError(reason, retry_after=wait, permanent=not passing), again


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from Retry-After (seconds or a date) or retry-after-ms; None if unsaid."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            seconds = float(milliseconds) / 1000
        else:
            seconds = float(headers["retry-after"])
    except KeyError:
        return None
    except ValueError:
        date = email.utils.parsedate_tz(headers.get("retry-after", ""))
        if date is None:
            return None
        seconds = email.utils.mktime_tz(date) - time.time()
    return max(0.0, seconds) if seconds < float("inf") else None
