"""How well memory.parse_time reads time expressions, and how often it sees one where there is none.

The sets are those of the data's README: time_core (expressions on which the sources agree), and
what duckling and jionlp expect for days, months, weeks and years that are past or present. An
expression counts where both ends of the window are right. Sentences without a time come from
LoCoMo's questions, by a word list that knows nothing of the grammar, and from a list of our own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

Figures = dict[str, dict[str, Any]]

SETS = ("time_core", "time_en_duckling", "time_zh_duckling", "time_zh_jionlp")
DAY_GRAINS = ("day", "week", "month", "quarter", "year")

# an instant for sentences that name none
NOW = "2023-11-01 10:00:00"

# whatever could be part of a time, and more
MAYBE_TIME = re.compile(
    r"\b(?:jan\w*|feb\w*|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep\w*|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?|mon\w*|tues\w*|wed\w*|thu\w*|fri\w*|sat\w*|sun\w*|days?|daily"
    r"|week\w*|month\w*|year\w*|decade\w*|century|quarter|today|tomorrow|yesterday|tonight|night"
    r"|morning|evening|afternoon|noon|spring|summer|autumn|fall|winter|season\w*|christmas|easter"
    r"|halloween|thanksgiving|valentine\w*|holiday\w*|birthday|last|next|past|ago|recent\w*|since"
    r"|until|before|after|during|now|currently|when|date|first|second|third|early|late|end"
    r"|beginning|start\w*|\d{4}|\d{1,2}(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)

WITHOUT_TIME = (
    "server on port 2024",
    "1999 tests passed",
    "may I march",
    "what did we discuss",
    "May the force be with you",
    "what did May say about the offer?",
    "they march to the sea",
    "the sun was too bright and we sat down",
    "I fall in love too easily",
    "the second attempt failed",
    "give me a second",
    "on the 4th floor",
    "every Friday",
    "I go running on Mondays",
    "error 2019 while reading block 1984",
    "it has 2000 users in 3 regions",
    "version 2.10.2024",
    "ticket 20240 is open",
    "call 555-2019 for help",
    "he is 30 years old",
    "we ran for 3 days",
    "it took 2 weeks",
    "a week is seven days",
    "set the timeout to 30 seconds",
    "the meeting room is 12/14",
    "3/4 of a cup of flour",
    "spring boot and winter tyres",
    "april is my sister",
    "buy 2 apples",
    "3000 years ago",
    "year 0",
    "in the year 10000",
    "十万年前",
    "每周五开会",
    "他年级第一",
    "三年级二班",
    "8号楼在哪里",
    "我的生日是什么",
    "一年有十二个月",
    "周到的服务",
    "天气怎么样",
    "端口 2024 被占用",
    "这里有1999个测试",
    "他工作了三年",
    "跑了三天",
)


@dataclass(frozen=True, slots=True)
class Expected:
    """One expression: both days are inclusive."""

    text: str
    now: str
    first: date
    last: date


def run(data_dir: Path, connection: psycopg.Connection[Any]) -> Figures:
    """The figures of every set that is there, under the set's name."""
    results: Figures = {}
    for name in SETS:
        path = data_dir / f"{name}.jsonl"
        if not path.is_file():
            continue
        rows = list(_expected(path))
        right = right_wide = 0
        for row in rows:
            window, wide = _windows(connection, row.text, row.now)
            right += window == (row.first, row.last)
            right_wide += wide == (row.first, row.last)
        results[name] = {
            "memphant": {
                "accuracy": round(right / len(rows), 4),
                # of the wide reading: with the end that a range names
                "wide_accuracy": round(right_wide / len(rows), 4),
                "expressions": len(rows),
            }
        }
    questions = data_dir / "locomo.q.jsonl"
    if questions.is_file():
        sentences = [
            *(row["text"] for row in _rows(questions) if not MAYBE_TIME.search(row["text"])),
            *WITHOUT_TIME,
        ]
        seen = sum(_windows(connection, text, NOW)[0] is not None for text in sentences)
        results["no_time"] = {
            "false_window": round(seen / len(sentences), 4),
            "sentences": len(sentences),
        }
    return results


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _expected(path: Path) -> Iterator[Expected]:
    """Rows with whole days; outside time_core only what has begun."""
    for row in _rows(path):
        start, end, now = row.get("start") or "", row.get("end") or "", row["ref"]
        if not (start and end) or "inf" in start + end or not re.match(r"\d{4}-", start):
            if path.stem != "time_core":
                continue
            # years before 1000 are written without leading zeros
            start, end = start.rjust(10, "0"), end.rjust(10, "0")
        if path.stem != "time_core" and (start > now or not _whole_days(row)):
            continue
        yield Expected(
            row["text"], now, date.fromisoformat(start[:10]), date.fromisoformat(end[:10])
        )


def _whole_days(row: dict[str, Any]) -> bool:
    if "grain" in row:
        return row["grain"] in DAY_GRAINS
    ends = row["end"].endswith("23:59:59") or row["end"] == row["ref"]
    return bool(row["start"].endswith("00:00:00") and ends)


Window = tuple[date | None, date | None] | None


def _windows(connection: psycopg.Connection[Any], text: str, now: str) -> tuple[Window, Window]:
    """The window and its wide reading, as first and last days in UTC."""
    row = connection.execute(
        """
        select
            t.window_from at time zone 'UTC', t.window_to at time zone 'UTC',
            t.wide_from at time zone 'UTC', t.wide_to at time zone 'UTC'
        from memory.parse_time(
            text => %s, now => %s::timestamp at time zone 'UTC', time_zone => 'UTC') as t
        """,
        (text, now),
    ).fetchone()
    assert row is not None
    return _days(row[0], row[1]), _days(row[2], row[3])


def _days(start: datetime | None, end: datetime | None) -> Window:
    if start is None and end is None:
        return None
    last = end - timedelta(microseconds=1) if end else None
    return start.date() if start else None, last.date() if last else None
