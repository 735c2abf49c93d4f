"""What the tools return. The same facts go out as structured content and as text."""

from typing import Any

from pydantic import BaseModel


class SaveReply(BaseModel):
    """A result per item: its index, status, and the stored memory or the error."""

    results: list[dict[str, Any]]
    notes: list[str]


class FoundReply(BaseModel):
    """Memories, where was searched, notes, and the cursor of the next page."""

    memories: list[dict[str, Any]]
    searched: dict[str, Any]
    notes: list[str]
    next_cursor: str | None


class MemoryReply(BaseModel):
    """One memory as it is stored."""

    memory: dict[str, Any]
    notes: list[str]


class HistoryReply(BaseModel):
    """Every version, newest first; the first is the current one."""

    versions: list[dict[str, Any]]
    notes: list[str]


class ForgetReply(BaseModel):
    """What was, or would be, forgotten."""

    forgotten: int
    would_forget: int
    memories: list[dict[str, Any]]
    notes: list[str]
