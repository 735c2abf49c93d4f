"""Evaluation sets: memories, and questions with the ids of the memories that hold the answer.

A set is a pair of files, NAME.mem.jsonl and NAME.q.jsonl; the data's README describes the fields.
They are read in place and are no part of the project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Row = dict[str, Any]

DATE_FORMATS = ("%I:%M %p on %d %B, %Y", "%Y-%m-%d")
LANGUAGES = ("en", "zh")
UNANSWERABLE = "adversarial"


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory of one user. Order within a conversation is order in the list."""

    id: str
    user: str
    text: str
    conversation: str | None = None
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One question of one user. `relevant` are ids; `group` is what it is reported under."""

    user: str
    text: str
    relevant: frozenset[str]
    group: str


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A set of memories and what is asked about them.

    parallel: the groups are directions between languages, reported without a total.
    asked_at: the time of the questions: their own date, else the day after the newest memory.
    """

    name: str
    memories: list[Memory]
    questions: list[Question]
    parallel: bool = False
    asked_at: datetime | None = None

    def by_user(self) -> dict[str, list[Memory]]:
        """The memories of each user, in their order."""
        found: dict[str, list[Memory]] = {}
        for memory in self.memories:
            found.setdefault(memory.user, []).append(memory)
        return found


def read_sets(folder: Path, only: str | None = None) -> Iterator[EvaluationSet]:
    """Every set in the folder that has both files; `only` names one. Says what is left out."""
    names = sorted(path.name.removesuffix(".mem.jsonl") for path in folder.glob("*.mem.jsonl"))
    for file in folder.glob("*.q.jsonl"):
        if file.name.removesuffix(".q.jsonl") not in names:
            print(f"left out: {file.name} has no memories")
    for name in names:
        questions = folder / f"{name}.q.jsonl"
        if not questions.exists():
            print(f"left out: {name} has no questions")
            continue
        memories = _rows(folder / f"{name}.mem.jsonl")
        given = _parallel if all(language in memories[0] for language in LANGUAGES) else _plain
        found = given(name, memories, _rows(questions))
        if only in (None, name, found.name):
            yield found


def _rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _plain(name: str, memories: list[Row], questions: list[Row]) -> EvaluationSet:
    return EvaluationSet(
        name,
        [
            Memory(
                id=row["id"],
                user=row["user"],
                text=row["text"],
                conversation=None if row.get("session") is None else str(row["session"]),
                occurred_at=None if row.get("date") is None else _date(row["date"]),
            )
            for row in sorted(memories, key=lambda row: (row["user"], row["pos"]))
        ],
        [
            Question(row["user"], row["text"], frozenset(row["rel"]), row["cat"])
            for row in questions
            if row["cat"] != UNANSWERABLE
        ],
        asked_at=_asked_at(memories, questions),
    )


def _asked_at(memories: list[Row], questions: list[Row]) -> datetime | None:
    asked = [_date(row["date"]) for row in questions if row.get("date")]
    if asked:
        return max(asked) + timedelta(hours=20)
    said = [_date(row["date"]) for row in memories if row.get("date")]
    return max(said) + timedelta(days=1) if said else None


def _parallel(name: str, memories: list[Row], questions: list[Row]) -> EvaluationSet:
    """Two users, each with every passage in one language: half in English, half in Chinese.

    What is English for one is Chinese for the other. So every question is asked in both languages
    of both users, the answer is there once, and passages of both languages compete.
    """
    told: dict[tuple[str, str], str] = {}
    stored = []
    for user, first in (("even", 0), ("odd", 1)):
        for at, row in enumerate(memories):
            language = LANGUAGES[(at + first) % 2]
            told[user, row["id"]] = language
            stored.append(Memory(row["id"], user, row[language]))
    asked = [
        Question(
            user, row[language], frozenset(row["rel"]), f"{language}-{told[user, row['rel'][0]]}"
        )
        for user in ("even", "odd")
        for row in questions
        for language in LANGUAGES
    ]
    return EvaluationSet(name.removesuffix("_par"), stored, asked, parallel=True)


def _date(text: str) -> datetime:
    for form in DATE_FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise ValueError(f"a date of unknown form: {text}")
