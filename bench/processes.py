"""What bench/mcp_latency.py talks to: server processes, and an embedding endpoint."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
from numpy.typing import NDArray

import memphant

SOURCES = str(Path(memphant.__file__).resolve().parents[1])
READY = re.compile(r"ready at (http://\S+)/mcp")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server on a port of its own."""

    url: str
    process: psutil.Process

    def cpu(self) -> float:
        """Seconds of CPU that it and its threads have used."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def serving(command: Sequence[str | Path], **settings: str) -> Iterator[ServerProcess]:
    """Starts a server, waits until it says where it listens, and ends it."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MEMPHANT_")}
    given = {f"MEMPHANT_{name.upper()}": value for name, value in settings.items()}
    with tempfile.TemporaryFile("w+") as errors:
        started = subprocess.Popen(
            [sys.executable, *command],
            env={**inherited, "PYTHONPATH": SOURCES, **given},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert started.stdout is not None
        try:
            for line in started.stdout:
                if found := READY.search(line):
                    break
            else:
                errors.seek(0)
                raise RuntimeError(f"{command} did not start: {errors.read()[-2000:]}")
            threading.Thread(target=started.stdout.read, daemon=True).start()
            yield ServerProcess(found[1], psutil.Process(started.pid))
        finally:
            started.terminate()
            started.wait(30)


@contextmanager
def endpoint_at_once(vectors: Mapping[str, NDArray[np.float32]]) -> Iterator[str]:
    """An OpenAI-compatible endpoint whose answers are ready before it is asked; yields its URL.

    A text that it does not know gets the first vector.
    """
    answers = {text: _answer(vector) for text, vector in vectors.items()}
    otherwise = next(iter(answers.values()))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = answers.get(body["input"][0], otherwise)
            head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
            self.wfile.write(f"{head}{len(content)}\r\n\r\n".encode() + content)

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(vector: NDArray[np.float32]) -> bytes:
    embedding = [float(f"{value:.7g}") for value in vector.tolist()]
    answer: dict[str, Any] = {
        "object": "list",
        "model": "at-once",
        "data": [{"object": "embedding", "index": 0, "embedding": embedding}],
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }
    return json.dumps(answer).encode()
