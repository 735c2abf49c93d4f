"""The log: one JSON object per line, and never what users said."""

import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memphant import logs
from memphant.errors import MemphantError

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """Configures the log for the test; calling it returns what was logged."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    output = io.StringIO()
    monkeypatch.setattr(sys, "stderr", output)
    logs.configure()
    yield lambda: [json.loads(line) for line in output.getvalue().splitlines()]
    root.handlers = handlers
    root.setLevel(level)


def test_an_event_is_one_line_with_its_fields(lines: Lines) -> None:
    logs.event("save", items=3, ms=1.5)
    (entry,) = lines()
    assert (entry["event"], entry["items"], entry["ms"]) == ("save", 3, 1.5)
    assert entry["level"] == "info"
    assert entry["at"].endswith("Z")
    assert "request" not in entry


def test_what_is_timed_tells_duration_counts_and_request(lines: Lines) -> None:
    token = logs.request_id.set("abc")
    with logs.timed("search", limit=5) as counts:
        counts["found"] = 2
    logs.request_id.reset(token)
    (entry,) = lines()
    assert (entry["event"], entry["request"]) == ("search", "abc")
    assert (entry["limit"], entry["found"]) == (5, 2)
    assert entry["ms"] >= 0
    assert "failed" not in entry


def test_a_failure_is_told_by_its_code_or_type_and_raised(lines: Lines) -> None:
    with pytest.raises(MemphantError), logs.timed("save"):
        raise MemphantError("content 'secret' is bad", "", "MP005")
    with pytest.raises(ValueError, match="secret"), logs.timed("save"):
        raise ValueError("secret")
    first, second = lines()
    assert (first["failed"], second["failed"]) == ("MP005", "ValueError")
    assert "secret" not in json.dumps([first, second])


def test_without_a_request_an_event_names_itself(lines: Lines) -> None:
    with logs.timed("embed"):
        logs.event("inner")
    inner, outer = lines()
    assert inner["request"] == outer["request"] != ""
    assert logs.request_id.get() == ""


def test_the_text_of_an_exception_is_left_out(lines: Lines) -> None:
    try:
        raise RuntimeError("secret words")
    except RuntimeError:
        logging.getLogger("memphant.worker").exception("background work failed")
    (entry,) = lines()
    assert entry["message"] == "background work failed"
    assert entry["error"] == "RuntimeError"
    assert any("test_logs.py" in frame for frame in entry["trace"])
    assert "secret" not in json.dumps(entry)


@pytest.mark.parametrize("name", ["mcp.server", "httpx2", "openai._base_client", "uvicorn.access"])
def test_libraries_that_quote_arguments_are_silent_below_warnings(lines: Lines, name: str) -> None:
    logging.getLogger(name).info("called with %s", "secret")
    assert lines() == []
    logging.getLogger(name).warning("careful")
    (entry,) = lines()
    assert (entry["logger"], entry["message"]) == (name, "careful")


def test_a_line_break_stays_inside_its_line(lines: Lines) -> None:
    logging.getLogger("other").warning("one\ntwo ü 中")
    (entry,) = lines()
    assert entry["message"] == "one\ntwo ü 中"
