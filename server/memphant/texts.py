"""What comes from a client and Postgres cannot hold, and forms that some clients send instead."""

import json
import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# a pair; one alone; any other escape, so that the u behind an escaped backslash starts none
_ESCAPE = re.compile(
    rb"(\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def parsable(body: bytes) -> bytes:
    """JSON in which every escaped lone surrogate has become U+0000, of the same length.

    Parsers refuse the one, and with it the whole message; `storable` removes and counts the other.
    """
    if not _SURROGATE.search(body):
        return body
    return _ESCAPE.sub(lambda found: rb"\u0000" if found[2] else found[0], body)


def storable(value: Any) -> tuple[Any, int]:
    """The value without U+0000 and lone surrogates in any string of it, and how many went."""
    if isinstance(value, str):
        return _UNSTORABLE.subn("", value)
    if isinstance(value, list):
        pairs = [storable(item) for item in value]
        return [item for item, _ in pairs], sum(removed for _, removed in pairs)
    if isinstance(value, dict):
        cleaned: dict[str, Any] = {}
        total = 0
        for key, item in value.items():
            (clean_key, in_key), (clean_item, in_item) = storable(key), storable(item)
            cleaned[clean_key] = clean_item
            total += in_key + in_item
        return cleaned, total
    return value, 0


def removal_note(removed: int) -> list[str]:
    """What to tell about characters that were removed."""
    if not removed:
        return []
    return [
        f"{removed} characters that Postgres cannot hold (U+0000, lone surrogates) were removed"
    ]


def parsed(value: Any, kind: type) -> Any:
    """A JSON text where `kind` is meant, as some clients send it; anything else as it is."""
    if isinstance(value, str):
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if isinstance(decoded, kind):
            return decoded
    return value


def one_or_many(value: Any) -> Any:
    """A list of strings; one string is a list of one."""
    value = parsed(value, list)
    if isinstance(value, str):
        return [value] if value else []
    return value if value is not None else []


Names = Annotated[list[str], BeforeValidator(one_or_many)]
"""A list of strings, lenient: one string, or a list as a JSON text."""
