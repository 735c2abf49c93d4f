"""Structured logs: one JSON object per line on stderr. Never memory text, vectors or tokens."""

import contextvars
import json
import logging
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")
_events = logging.getLogger("memphant.events")


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
        }
        if record.name == _events.name:
            fields |= record.__dict__.get("fields", {})
        else:
            fields |= {"event": "log", "logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[0] is not None:
                # the type and place of a failure; its text could quote what a user said
                fields["error"] = record.exc_info[0].__name__
                fields["trace"] = _frames(record)
        return json.dumps(fields, ensure_ascii=False, default=str)


def _frames(record: logging.LogRecord) -> list[str]:
    trace = record.exc_info[2] if record.exc_info else None
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-8:]


def configure(level: int = logging.INFO) -> None:
    """Sends every log line to stderr as JSON. stdout belongs to the protocol and to commands."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # their lines at level info quote arguments of tools, or tell one request twice
    for name in ("mcp", "httpx", "httpx2", "openai", "uvicorn.access", "psycopg.pool"):
        logging.getLogger(name).setLevel(logging.WARNING)


def event(name: str, **fields: object) -> None:
    """Logs one event: what happened, how long (ms), how many."""
    entry: dict[str, object] = {"event": name}
    if request_id.get():
        entry["request"] = request_id.get()
    _events.info(name, extra={"fields": entry | fields})


@contextmanager
def timed(name: str, **fields: object) -> Iterator[dict[str, object]]:
    """Logs an event when the block ends, with its duration in ms and whether it failed.

    The block may add counts to the yielded dictionary.
    """
    token = request_id.set(request_id.get() or uuid.uuid4().hex[:12])
    started = time.perf_counter()
    counts: dict[str, object] = {}
    try:
        yield counts
    except BaseException as error:
        counts["failed"] = getattr(error, "code", "") or type(error).__name__
        raise
    finally:
        elapsed = round((time.perf_counter() - started) * 1000, 2)
        event(name, ms=elapsed, **fields, **counts)
        request_id.reset(token)
