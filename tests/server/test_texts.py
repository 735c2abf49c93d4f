"""What clients send: characters that cannot be stored, and forms that are meant differently."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from memphant.texts import Names, one_or_many, parsable, parsed, removal_note, storable


@pytest.mark.parametrize(
    ("given", "kept", "removed"),
    [
        ("plain", "plain", 0),
        ("a\x00b", "ab", 1),
        ("a\ud800b\udfffc", "abc", 2),
        ("👨‍👩‍👧 שלום \u202e \ufffe", "👨‍👩‍👧 שלום \u202e \ufffe", 0),
        (["a\x00", {"k\x00": ["\x00v"]}], ["a", {"k": ["v"]}], 3),
        ({"n": 1, "b": True, "x": None}, {"n": 1, "b": True, "x": None}, 0),
        (7, 7, 0),
        (None, None, 0),
    ],
)
def test_what_postgres_cannot_hold_is_removed_and_counted(
    given: Any, kept: Any, removed: int
) -> None:
    assert storable(given) == (kept, removed)


def test_only_a_removal_is_noted() -> None:
    assert removal_note(0) == []
    (note,) = removal_note(2)
    assert note.startswith("2 characters that Postgres cannot hold")


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (rb'"plain"', rb'"plain"'),
        (rb'"\ud800"', rb'"\u0000"'),
        (rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\u0000\ud83d\ude00"'),
        (rb'"\ude00\ud83d"', rb'"\u0000\u0000"'),
        (rb'"\\ud800"', rb'"\\ud800"'),
        (rb'"\\\ud800"', rb'"\\\u0000"'),
        (rb'"\"\ud800\u00e9"', rb'"\"\u0000\u00e9"'),
        (rb'"\ud8', rb'"\ud8'),
        (rb'"\ud800\u0041"', rb'"\u0000\u0041"'),
    ],
)
def test_an_escaped_lone_surrogate_becomes_u0000(given: bytes, made: bytes) -> None:
    assert parsable(given) == made
    assert len(made) == len(given)


def test_what_was_made_parsable_is_what_was_meant() -> None:
    meant = 'A😀B\\ud800 "quoted" \u00e9'
    assert json.loads(parsable(json.dumps(meant + "\ud800").encode())) == meant + "\x00"


@pytest.mark.parametrize(
    ("given", "kind", "read"),
    [
        ('["a"]', list, ["a"]),
        ('{"k": 1}', dict, {"k": 1}),
        ('{"k": 1}', list, '{"k": 1}'),
        ("true", bool, True),
        ("1", bool, "1"),
        ("no json", list, "no json"),
        ("[" * 100_000, list, "[" * 100_000),
        (["a"], list, ["a"]),
        (None, list, None),
    ],
)
def test_json_in_a_text_is_read_where_its_kind_is_meant(given: Any, kind: type, read: Any) -> None:
    assert parsed(given, kind) == read


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["a", "b"], ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("a", ["a"]),
        ("[a", ["[a"]),
        ("5", ["5"]),
        ("", []),
        (None, []),
        ([], []),
    ],
)
def test_names_are_a_list_or_one_text(given: Any, names: list[str]) -> None:
    assert one_or_many(given) == names
    assert TypeAdapter(Names).validate_python(given) == names


@pytest.mark.parametrize("given", [[1], {"a": 1}, 5])
def test_names_are_texts(given: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Names).validate_python(given)
