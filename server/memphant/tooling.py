"""How a tool reads: strict names, lenient values, refusals that say what to do, short schemas."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Annotated, Any, TypeVar

from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import AfterValidator, Field, ValidationError

from memphant.errors import MemphantError
from memphant.replies import ForgetReply, FoundReply, HistoryReply, MemoryReply, SaveReply
from memphant.texts import Names, removal_note, storable

Reply = TypeVar("Reply", SaveReply, FoundReply, MemoryReply, HistoryReply, ForgetReply)

Types = Annotated[
    Names,
    Field(description="Only these types: user_preference, fact, task_context, plan, summary."),
]
Tags = Annotated[Names, Field(description="Only memories with all of these tags.")]
Since = Annotated[str, Field(description="Only from this time on, ISO 8601.")]
Until = Annotated[str, Field(description="Only until this time; a date includes that day.")]
# what Postgres's integer cannot hold is refused there like everything else out of range
Integer = Annotated[int, AfterValidator(lambda number: max(-1, min(number, 2**31 - 1)))]
Limit = Annotated[
    Integer,
    Field(description="Most memories to return, 1 to 1000."),
]
Cursor = Annotated[str, Field(description="next_cursor of the page before.")]


class _Tool(Tool):
    """A tool whose refusals of arguments say what to do, and that takes no unknown argument."""

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> Any:
        try:
            return await super().run(arguments, context, convert_result)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(self._explain(error.__cause__)) from error.__cause__
            raise

    def _explain(self, error: ValidationError) -> str:
        problems = []
        for problem in error.errors(include_url=False, include_input=False):
            name = ".".join(map(str, problem["loc"]))
            if problem["type"] == "extra_forbidden":
                problems.append(f"unknown argument {name!r}")
            else:
                problems.append(f"{name}: {problem['msg']}")
        known = ", ".join(self.fn_metadata.arg_model.model_fields)
        return f"{'; '.join(problems)}. {self.name} takes: {known}."


def tool(
    fn: Callable[..., Coroutine[Any, Any, Reply]],
    title: str,
    description: str,
    annotations: ToolAnnotations,
) -> Tool:
    tool = _Tool.from_function(
        _readable(fn), fn.__name__, title, description, annotations=annotations
    )
    model = tool.fn_metadata.arg_model
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = _without_titles(model.model_json_schema(by_alias=True))
    return tool


def _without_titles(schema: Any) -> Any:
    # every prompt pays for the schemas; a title repeats the name of its property
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(value) for name, value in item.items()}
            if key == "properties"
            else _without_titles(item)
            for key, item in schema.items()
            if key != "title"
        }
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    return schema


def _readable(
    fn: Callable[..., Coroutine[Any, Any, Reply]],
) -> Callable[..., Coroutine[Any, Any, Reply]]:
    """The tool on arguments that can be stored, with refusals as the text that the model reads."""

    @wraps(fn)
    async def call(**arguments: Any) -> Reply:
        arguments, removed = storable(arguments)
        try:
            reply = await fn(**arguments)
        except MemphantError as error:
            raise ToolError(str(error)) from error
        reply.notes += removal_note(removed)
        return reply

    return call
