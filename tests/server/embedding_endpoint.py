"""A real HTTP server that embeds, well or badly, as a test asks it to.

    with EmbeddingEndpoint() as endpoint:
        endpoint.next(Status(429, retry_after="0"))   # the first request; then it is good again
        endpoint.always(Status(500))                  # from now on

Its vectors mean something: texts that share words are near each other.
"""

from __future__ import annotations

import json
import math
import random
import re
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent."""

    body: dict[str, Any]
    headers: dict[str, str]  # names in lower case

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back; body is sent as JSON, Infinity and NaN included."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Behaviour = Callable[["EmbeddingEndpoint", Request], Reply]


def good(endpoint: EmbeddingEndpoint, request: Request) -> Reply:
    """One vector per text; the dimensions that were asked for, else the endpoint's own."""
    dimensions = request.body.get("dimensions") or endpoint.dimensions
    data = [
        {"object": "embedding", "index": i, "embedding": vector_of(text, dimensions)}
        for i, text in enumerate(request.texts)
    ]
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return Reply({"object": "list", "data": data, "model": request.body["model"], "usage": usage})


def shuffled(endpoint: EmbeddingEndpoint, request: Request) -> Reply:
    """The right vectors, listed backwards; each says which text it belongs to."""
    reply = good(endpoint, request)
    reply.body["data"].reverse()
    return reply


def truncated(endpoint: EmbeddingEndpoint, request: Request) -> Reply:
    """One vector too few."""
    reply = good(endpoint, request)
    reply.body["data"].pop()
    return reply


def hanging(endpoint: EmbeddingEndpoint, request: Request) -> Reply:
    """Nothing, until the endpoint closes."""
    endpoint.closing.wait()
    return good(endpoint, request)


@dataclass(frozen=True, slots=True)
class Slow:
    """Good, after this many seconds."""

    seconds: float

    def __call__(self, endpoint: EmbeddingEndpoint, request: Request) -> Reply:
        endpoint.closing.wait(self.seconds)
        return good(endpoint, request)


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Vectors of this many dimensions, whatever was asked for."""

    dimensions: int

    def __call__(self, _endpoint: EmbeddingEndpoint, request: Request) -> Reply:
        body = {**request.body, "dimensions": self.dimensions}
        return good(_endpoint, Request(body, request.headers))


@dataclass(frozen=True, slots=True)
class Filled:
    """Vectors that hold one number everywhere: 0, NaN or Infinity."""

    number: float

    def __call__(self, endpoint: EmbeddingEndpoint, request: Request) -> Reply:
        reply = good(endpoint, request)
        for item in reply.body["data"]:
            item["embedding"] = [self.number] * endpoint.dimensions
        return reply


@dataclass(frozen=True, slots=True)
class Status:
    """An error; its message repeats the texts, as some servers' do."""

    status: int
    retry_after: str | None = None
    code: str | None = None

    def __call__(self, _endpoint: EmbeddingEndpoint, request: Request) -> Reply:
        error = {"message": f"failed on: {request.texts}", "code": self.code, "type": "error"}
        headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
        return Reply({"error": error}, self.status, headers)


@dataclass(frozen=True, slots=True)
class Limit:
    """A model with a context: 400 if a text has more characters than this, good otherwise."""

    characters: int

    def __call__(self, endpoint: EmbeddingEndpoint, request: Request) -> Reply:
        longest = max(map(len, request.texts))
        if longest <= self.characters:
            return good(endpoint, request)
        message = f"This model's maximum context length is {self.characters}, not {longest}."
        return Reply({"error": {"message": message, "code": 400, "type": "BadRequest"}}, 400)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that was killed
            super().handle_error(request, client_address)


class EmbeddingEndpoint:
    """The server; use it as a context manager. Good until told otherwise."""

    def __init__(self, dimensions: int = 16, port: int = 0) -> None:
        self.dimensions = dimensions
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._next: deque[Behaviour] = deque()
        self._otherwise: Behaviour = good
        self._server = _Server(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        """Where it listens; another one may follow there."""
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """What a client is configured with, up to and with /v1."""
        return f"http://127.0.0.1:{self.port}/v1"

    def next(self, *behaviours: Behaviour) -> None:
        """How the coming requests are answered, one each."""
        self._next.extend(behaviours)

    def always(self, behaviour: Behaviour) -> None:
        """How all requests after those are answered."""
        self._otherwise = behaviour

    def __enter__(self) -> EmbeddingEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: Request) -> Reply:
        self.requests.append(request)
        behaviour = self._next.popleft() if self._next else self._otherwise
        return behaviour(self, request)

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:  # noqa: N805  self is the handler's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                sent = self.rfile.read(length)
                # one that is gone answers nobody, and nobody is answered who is gone
                if endpoint.closing.is_set() or len(sent) < length:
                    self.close_connection = True
                    return
                body = json.loads(sent)
                headers = {name.lower(): value for name, value in self.headers.items()}
                if self.path == "/v1/embeddings":
                    reply = endpoint._answer(Request(body, headers))
                else:
                    reply = Reply({"error": {"message": "no such path"}}, 404)
                content = json.dumps(reply.body).encode()
                try:
                    self.send_response(reply.status)
                    self.send_header("Content-Type", "application/json")
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except ConnectionError:
                    self.close_connection = True  # the client has given up waiting

            def log_message(self, *_: object) -> None:
                """Silent: the tests' output is for the tests."""

        return Handler


def vector_of(text: str, dimensions: int) -> list[float]:
    """Sum of a fixed random direction per word, times three: clients must normalise."""
    total = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        direction = random.Random(word)
        total = [value + direction.gauss() for value in total]
    length = math.sqrt(sum(value * value for value in total))
    return [3 * value / length for value in total]
