"""Resources: what a host may attach to a conversation without a tool call."""

import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any
from uuid import UUID

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from memphant.errors import MemphantError
from memphant.services import Services

RECENT = 5
PREFERENCES = 50


def add_resources(server: MCPServer[Any], services: Services) -> None:
    """Adds every resource, bound to the services."""

    @server.resource(
        "memory://user_preferences",
        title="Preferences",
        description="How the user wants things, newest first.",
        mime_type="application/json",
    )
    @_readable
    async def user_preferences() -> str:
        who = await services.principal()
        memories = await services.store.newest(who, PREFERENCES, only="user_preference")
        return json.dumps(memories, ensure_ascii=False)

    @server.resource(
        "memory://recent_context",
        title="Recent",
        description="The newest five memories, without summaries.",
        mime_type="application/json",
    )
    @_readable
    async def recent_context() -> str:
        who = await services.principal()
        memories = await services.store.newest(who, RECENT, never="summary")
        return json.dumps(memories, ensure_ascii=False)

    @server.resource(
        "memory://memories/{memory_id}",
        title="One memory",
        description="A memory by its id.",
        mime_type="application/json",
    )
    @_readable
    async def one_memory(memory_id: str) -> str:
        who = await services.principal()
        try:
            identifier = UUID(memory_id)
        except ValueError:
            raise MemphantError(f"no memory {memory_id}", code="MP003") from None
        return json.dumps(await services.store.get(who, identifier), ensure_ascii=False)


def _readable(
    fn: Callable[..., Coroutine[Any, Any, str]],
) -> Callable[..., Coroutine[Any, Any, str]]:
    @wraps(fn)
    async def read(*arguments: Any, **named: Any) -> str:
        try:
            return await fn(*arguments, **named)
        except MemphantError as error:
            kind = ResourceNotFoundError if error.code == "MP003" else ResourceError
            raise kind(str(error)) from error

    return read
