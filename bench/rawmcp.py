"""MCP by hand over one kept-alive HTTP connection: no client library in what is measured.

The official client spends 7 to 10 ms of its own on a call. Here a request is one write to the
socket, and an answer is read by its length.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

HANDSHAKE, SELF_CONTAINED = "2025-11-25", "2026-07-28"
"""The versions of the two eras of the protocol: with a handshake, and without."""

ABOUT_US = {
    "io.modelcontextprotocol/protocolVersion": SELF_CONTAINED,
    "io.modelcontextprotocol/clientInfo": {"name": "memphant-bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
SECONDS = 120  # longest wait for an answer


class RefusedError(Exception):
    """The server answered with another HTTP status than 200; it is the first argument."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool returned, and how long it took from the first byte sent to the last received."""

    structured: dict[str, Any]
    text: str
    is_error: bool
    seconds: float


def endpoint(url: str) -> str:
    """The URL of MCP, where only the server's is given."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + "/mcp"


class RawClient:
    """One connection of one bearer. Use it as a context manager."""

    def __init__(self, url: str, token: str | None = None, version: str = HANDSHAKE) -> None:
        parts = urlsplit(endpoint(url))
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"not an http URL: {url}")
        self._version = version
        self._number = 0
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"MCP-Protocol-Version: {version}\r\n"
            + (f"Authorization: Bearer {token}\r\n" if token is not None else "")
        )

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, tool: str, /, **arguments: Any) -> Answer:
        """Calls a tool. Raises RefusedError, and RuntimeError for an error of the protocol."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        routing = ""
        if self._version == SELF_CONTAINED:
            params["_meta"] = ABOUT_US
            routing = f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": params}
        body = json.dumps(request).encode()
        head = f"{self._head}{routing}Content-Length: {len(body)}\r\n\r\n".encode()
        begun = time.perf_counter()
        self._socket.sendall(head + body)
        status, content = self._answer()
        seconds = time.perf_counter() - begun
        if status != 200:
            raise RefusedError(status, content.decode(errors="replace")[:500])
        reply = json.loads(content)
        if "error" in reply:
            raise RuntimeError(f"{tool}: {reply['error']}")
        result = reply["result"]
        return Answer(
            result.get("structuredContent") or {},
            "".join(part.get("text", "") for part in result["content"]),
            bool(result.get("isError")),
            seconds,
        )

    def _answer(self) -> tuple[int, bytes]:
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        lines = bytes(received[:end]).decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }
        if "content-length" not in headers:
            raise RuntimeError("an answer without Content-Length: is this a server of memphant?")
        whole = end + 4 + int(headers["content-length"])
        while len(received) < whole:
            received += self._more()
        return int(lines[0].split(" ")[1]), bytes(received[end + 4 : whole])

    def _more(self) -> bytes:
        part = self._socket.recv(1 << 18)
        if not part:
            raise ConnectionError("the server closed the connection")
        return part
