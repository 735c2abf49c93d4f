"""Time expressions of queries and memories: cases R46 to R49 and R51 to R53, and their kinds."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest

# a Friday
NOW = "2026-07-17T10:00:00+00:00"


def window(
    server: psycopg.Connection,
    text: str,
    now: str = NOW,
    time_zone: str = "UTC",
    future: bool | None = None,
) -> tuple[datetime | None, datetime | None]:
    """The window of a text in local time, without its zone."""
    row = server.execute(
        """
        select t.window_from at time zone %(zone)s, t.window_to at time zone %(zone)s
        from memory.parse_time(
            text => %(text)s, now => %(now)s, time_zone => %(zone)s, future => %(future)s) as t
        """,
        {"text": text, "now": now, "zone": time_zone, "future": future},
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def day(text: str) -> datetime:
    return datetime.fromisoformat(text)


def days(first: str, last: str) -> tuple[datetime, datetime]:
    """A window of whole days, both inclusive."""
    return day(first), day(last) + timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("what did we discuss in May", "2026-05-01", "2026-05-31"),
        ("meeting on 13 July 2024", "2024-07-13", "2024-07-13"),
        ("2023-10-27", "2023-10-27", "2023-10-27"),
        ("27 Oct 2023", "2023-10-27", "2023-10-27"),
        ("October 27th", "2025-10-27", "2025-10-27"),
        ("what happened in 2022?", "2022-01-01", "2022-12-31"),
        ("Q3 2025", "2025-07-01", "2025-09-30"),
        ("yesterday", "2026-07-16", "2026-07-16"),
        ("the day before yesterday", "2026-07-15", "2026-07-15"),
        ("3 days ago", "2026-07-14", "2026-07-14"),
        ("a couple of months ago", "2026-05-01", "2026-05-31"),
        ("in 3 days", "2026-07-20", "2026-07-20"),
        ("last week", "2026-07-06", "2026-07-12"),
        ("the week after next", "2026-07-27", "2026-08-02"),
        ("next week", "2026-07-20", "2026-07-26"),
        ("last month", "2026-06-01", "2026-06-30"),
        ("past 2 weeks", "2026-07-03", "2026-07-17"),
        ("last weekend", "2026-07-11", "2026-07-12"),
        ("last quarter", "2026-04-01", "2026-06-30"),
        ("what did I say on Tuesday?", "2026-07-14", "2026-07-14"),
        ("first Monday of last month", "2026-06-01", "2026-06-01"),
        ("last Christmas", "2025-12-25", "2025-12-25"),
        ("Easter 2026", "2026-04-05", "2026-04-05"),
        ("the end of March", "2026-03-21", "2026-03-31"),
        ("between March and May 2025", "2025-03-01", "2025-05-31"),
        ("上周三", "2026-07-08", "2026-07-08"),
        ("上个月", "2026-06-01", "2026-06-30"),
        ("下下周", "2026-07-27", "2026-08-02"),
        ("去年10月", "2025-10-01", "2025-10-31"),
        ("三天前", "2026-07-14", "2026-07-14"),
        ("半年前", "2026-01-01", "2026-01-31"),
        ("最近三天", "2026-07-14", "2026-07-17"),
        ("2023年10月27日", "2023-10-27", "2023-10-27"),
        ("10月27号", "2025-10-27", "2025-10-27"),
        ("二〇二三年十月", "2023-10-01", "2023-10-31"),
        ("3月到5月我们聊了什么", "2026-03-01", "2026-05-31"),
        ("去年春节", "2025-01-29", "2025-01-29"),
        ("上週五我們聊了什麼", "2026-07-10", "2026-07-10"),
        # the time is counted from another one
        ("what did we do on the Monday before July 24, 2023?", "2023-07-17", "2023-07-17"),
        ("the Sunday before Easter", "2026-03-29", "2026-03-29"),
        ("the second Friday after 1 May 2023", "2023-05-12", "2023-05-12"),
        ("the week after 3 May", "2026-05-04", "2026-05-10"),
        ("the weekend before 5 May 2023", "2023-04-29", "2023-04-30"),
        ("the month before July 2023", "2023-06-01", "2023-06-30"),
        ("two days before Christmas 2022", "2022-12-23", "2022-12-23"),
        ("two days before last Friday", "2026-07-08", "2026-07-08"),
        ("a week ago last Friday", "2026-07-03", "2026-07-03"),
        ("a week ago yesterday", "2026-07-09", "2026-07-09"),
        ("Monday two weeks ago", "2026-06-29", "2026-06-29"),
        ("the last Friday of last month", "2026-06-26", "2026-06-26"),
        ("the last week of last month", "2026-06-22", "2026-06-28"),
        ("week 27 of last year", "2025-07-07", "2025-07-13"),
        ("20 of last month", "2026-06-20", "2026-06-20"),
        ("the closest Monday to 5 May 2023", "2023-05-08", "2023-05-08"),
        ("5月1日前的周一", "2026-04-27", "2026-04-27"),
        ("国庆节前三天", "2025-09-28", "2025-09-30"),
        # compound lengths, loose ones
        ("2 years and 3 months ago", "2024-04-01", "2024-04-30"),
        ("a year and a half ago", "2025-01-01", "2025-01-31"),
        ("twenty-five days ago", "2026-06-22", "2026-06-22"),
        ("一年半前", "2025-01-01", "2025-01-31"),
        ("十几年前", "2006-01-01", "2016-12-31"),
        ("within 3 days", "2026-07-17", "2026-07-20"),
        ("17天内", "2026-07-17", "2026-08-03"),
        ("H2 2025", "2025-07-01", "2025-12-31"),
        ("the second half of last year", "2025-07-01", "2025-12-31"),
        ("next January 3rd", "2027-01-03", "2027-01-03"),
        ("八月份的第一个周二", "2025-08-05", "2025-08-05"),
        # holidays of other calendars, with the evening before
        ("Eid al-Fitr 2018", "2018-06-15", "2018-06-15"),
        ("Ramadan 2034", "2034-11-12", "2034-12-11"),
        ("Hanukkah 2018", "2018-12-02", "2018-12-09"),
        ("Passover 2018", "2018-03-30", "2018-04-07"),
        ("rosh hashanah 2018", "2018-09-09", "2018-09-11"),
        ("orthodox easter 2024", "2024-05-05", "2024-05-05"),
        ("2025年芒种", "2025-06-05", "2025-06-05"),
        ("神龙元年", "0705-01-01", "0705-12-31"),
        ("在20世纪初", "1900-01-01", "1919-12-31"),
    ],
)
def test_expressions_are_read_as_whole_local_days(
    server: psycopg.Connection, text: str, first: str, last: str
) -> None:
    """R47, R49 and their kind."""
    assert window(server, text) == days(first, last)


@pytest.mark.parametrize(
    "text",
    [
        "what did we discuss",
        "server on port 2024",
        "1999 tests passed",
        "may I march",
        "they march to the sea",
        "the second attempt failed",
        "I fall in love on the 4th floor",
        "every Friday",
        "每周五开会",
        "十万年前",
        "3000 years ago",
        "year 0",
        "in the year 10000",
        "9999 centuries ago",
        "2026-02-30",
        "9999-12-31",
        "",
        "!!!",
    ],
)
def test_a_text_without_a_time_has_no_window(server: psycopg.Connection, text: str) -> None:
    """R47, R48, R51."""
    assert window(server, text) == (None, None)


@pytest.mark.parametrize(
    ("text", "expected"), [("last tuesday", "2018-04-17"), ("last Wednesday", "2018-04-11")]
)
def test_last_weekday_is_the_latest_before_today(
    server: psycopg.Connection, text: str, expected: str
) -> None:
    """R53."""
    assert window(server, text, now="2018-04-18T10:00:00+00:00") == days(expected, expected)


@pytest.mark.parametrize("time_zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
@pytest.mark.parametrize("clock", ["00:05", "23:55"])
def test_days_are_those_of_the_caller(
    server: psycopg.Connection, time_zone: str, clock: str
) -> None:
    """R52: zones +14 and -11, five minutes from midnight."""
    local = datetime.fromisoformat(f"2026-07-15T{clock}").replace(tzinfo=ZoneInfo(time_zone))
    now = local.astimezone(UTC).isoformat()
    for text, first, last in (
        ("3 days ago", "2026-07-12", "2026-07-12"),
        ("last week", "2026-07-06", "2026-07-12"),
        ("yesterday", "2026-07-14", "2026-07-14"),
        ("昨天", "2026-07-14", "2026-07-14"),
    ):
        assert window(server, text, now=now, time_zone=time_zone) == days(first, last)


def test_a_day_depends_on_the_zone_only(server: psycopg.Connection) -> None:
    """R46: 2025-07-25T02:00Z is the 25th in UTC and the 24th in Los Angeles."""
    said = datetime(2025, 7, 25, 2, tzinfo=UTC)
    for zone, holds in (("UTC", True), ("America/Los_Angeles", False)):
        row = server.execute(
            "select %s >= t.window_from and %s < t.window_to"
            " from memory.parse_time(text => '2025-07-25', now => %s, time_zone => %s) as t",
            (said, said, NOW, zone),
        ).fetchone()
        assert row == (holds,)


def test_a_question_about_plans_looks_ahead(server: psycopg.Connection) -> None:
    assert window(server, "what did I do on Monday?") == days("2026-07-13", "2026-07-13")
    assert window(server, "what have I planned for Monday?") == days("2026-07-20", "2026-07-20")
    assert window(server, "what will I do in May?") == days("2027-05-01", "2027-05-31")
    assert window(server, "周一我打算做什么") == days("2026-07-20", "2026-07-20")
    assert window(server, "Monday", future=True) == days("2026-07-20", "2026-07-20")


def test_one_side_can_be_open(server: psycopg.Connection) -> None:
    assert window(server, "since March") == (day("2026-03-01"), None)
    assert window(server, "before 2020") == (None, day("2020-01-01"))
    assert window(server, "after last week") == (day("2026-07-13"), None)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("yesterday morning", "2026-07-16T00:00", "2026-07-16T12:00"),
        ("yesterday at 3pm", "2026-07-16T15:00", "2026-07-16T16:00"),
        ("last night", "2026-07-16T18:00", "2026-07-17T00:00"),
        ("前天晚上", "2026-07-15T18:00", "2026-07-16T00:00"),
        ("昨天下午三点半", "2026-07-16T15:30", "2026-07-16T15:31"),
    ],
)
def test_parts_of_a_day(server: psycopg.Connection, text: str, first: str, last: str) -> None:
    assert window(server, text) == (day(first), day(last))


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("what did we discuss last Wednesday", True),
        ("what have I planned for next week", True),
        ("last week", True),
        ("what did we decide about the database yesterday?", True),
        ("上周我们聊了什么", True),
        ("What painting did Melanie show to Caroline on October 13, 2023?", False),
        ("the restaurant that we went to last summer with the noisy terrace", False),
        ("what did we discuss", False),
    ],
)
def test_it_says_whether_the_question_is_about_that_time(
    server: psycopg.Connection, text: str, asks: bool
) -> None:
    row = server.execute(
        "select t.asks from memory.parse_time(text => %s, now => %s) as t", (text, NOW)
    ).fetchone()
    assert row == (asks,)


def test_what_a_search_should_cover_is_wider_where_the_text_is_loose(
    server: psycopg.Connection,
) -> None:
    rows = [
        server.execute(
            "select t.wide_from at time zone 'UTC', t.wide_to at time zone 'UTC'"
            " from memory.parse_time(text => %s, now => %s) as t",
            (text, NOW),
        ).fetchone()
        for text in (
            "two weeks ago",
            "from 3 to 5 June",
            "从3月到5月",
            "within 3 days",
            "the week before 3 May",
            "yesterday",
        )
    ]
    assert rows == [
        days("2026-06-30", "2026-07-06"),
        days("2026-06-03", "2026-06-05"),
        days("2026-03-01", "2026-05-31"),
        days("2026-07-14", "2026-07-20"),
        days("2026-04-20", "2026-05-02"),
        days("2026-07-16", "2026-07-16"),
    ]


@pytest.mark.parametrize(
    ("content", "first", "last"),
    [
        ("next week I travel to Paris", "2026-07-20", "2026-07-26"),
        ("I'll see the dentist on Monday", "2026-07-20", "2026-07-20"),
        ("I saw the dentist on Monday", "2026-07-13", "2026-07-13"),
        ("My daughter was born on 3 May 2015", "2015-05-03", "2015-05-03"),
        ("I will be in Tokyo from 3 to 5 June", "2027-06-03", "2027-06-05"),
        ("周一我要见医生", "2026-07-20", "2026-07-20"),
        ("I will finish it within 3 days", "2026-07-17", "2026-07-20"),
        ("她去年10月结婚了", "2025-10-01", "2025-10-31"),
    ],
)
def test_a_memory_speaks_of_a_time(
    server: psycopg.Connection, content: str, first: str, last: str
) -> None:
    row = server.execute(
        "select t.event_from at time zone 'UTC', t.event_to at time zone 'UTC'"
        " from memory.event_time(content => %s, occurred_at => %s) as t",
        (content, NOW),
    ).fetchone()
    assert row == days(first, last)


@pytest.mark.parametrize(
    "content",
    [
        "I love jazz",
        "I go running every Friday",
        "limit is 2000",
        "the herd fell to a hundred within ten years",
    ],
)
def test_a_memory_without_a_time_has_no_event(server: psycopg.Connection, content: str) -> None:
    row = server.execute(
        "select t.event_from, t.event_to"
        " from memory.event_time(content => %s, occurred_at => %s) as t",
        (content, NOW),
    ).fetchone()
    assert row == (None, None)


def test_a_dba_adds_an_expression_with_an_insert(
    owner: psycopg.Connection, server: psycopg.Connection
) -> None:
    assert window(server, "last sennight") == (None, None)
    owner.execute(
        "insert into memory.time_words (word, language, kind, unit)"
        " values ('sennight', 'en', 'U', 'week')"
    )
    owner.execute(
        "insert into memory.time_words (word, language, kind, unit)"
        " values ('founders day', 'en', 'H', '3-1'), ('gone', 'en', 'gone', null)"
    )
    owner.execute(
        "insert into memory.time_rules (pattern, language, level, meaning, arguments, parameter)"
        " values ('N U gone', 'en', 20, 'away', array[1, 2], '-')"
    )
    assert window(server, "last sennight") == days("2026-07-06", "2026-07-12")
    assert window(server, "founders day 2024") == days("2024-03-01", "2024-03-01")
    assert window(server, "3 days gone") == days("2026-07-14", "2026-07-14")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 8000,
        "1/" * 4000,
        "三" * 8000,
        "last " * 1600,
        "2024-13-99 25:99 31/31/2020 99999999999 千万亿 00年00月00日",
        "until before since 999 to since 2018",
        "May May May May 5 5 5 2020 2020",
        "\u202egnp.9102 in 😀 in 2019\n\t",
    ],
)
def test_garbage_is_no_error(server: psycopg.Connection, text: str) -> None:
    for function in ("parse_time", "event_time"):
        assert server.execute(
            f"select count(*) from memory.{function}(%s, %s::timestamptz, 'UTC')", (text, NOW)
        ).fetchone() == (1,)
