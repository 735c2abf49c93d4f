"""A server with the same libraries as memphant's and tools that do nothing: what a protocol costs.

    python empty_server.py [REPLY.json]

`search_memories` takes what memphant's takes and answers at once: with nothing, or with the reply
in the file, in both forms that a reply has. It prints where it listens, as memphant does.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import BaseModel


class Reply(BaseModel):
    """As memphant's FoundReply."""

    memories: list[dict[str, Any]]
    searched: dict[str, Any]
    notes: list[str]
    next_cursor: str | None


def build(reply: dict[str, Any] | None) -> MCPServer[Any]:
    """The server with one of two tools of the same name."""
    server: MCPServer[Any] = MCPServer("empty", log_level="WARNING")

    async def nothing(query: str, limit: int = 10) -> str:  # noqa: ARG001
        return ""

    async def same_reply(query: str, limit: int = 10) -> Reply:  # noqa: ARG001
        return Reply(**(reply or {}))

    server.add_tool(nothing if reply is None else same_reply, name="search_memories")
    return server


async def main(reply: dict[str, Any] | None) -> None:
    hosts = ["127.0.0.1", "127.0.0.1:*"]
    app = build(reply).streamable_http_app(
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=[]
        ),
    )
    # only where the protocol is named does asyncio turn Nagle's algorithm off, which would hold
    # an answer back for 40 ms
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(f"ready at http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(app, http="h11", lifespan="on", log_config=None, access_log=False)
    await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text()) if len(sys.argv) > 1 else None))
