"""Conversations through a server: python bench/load_conversations.py --data-dir DIR --url URL

Pours the LoCoMo and MemoryBank sets into a server through its MCP tools, every conversation its own
user with a bearer token of its own, and asks their questions through search_memories. Prints
recall@5 and recall@10 of each set, saves per second in lists of 100 and one by one, and the latency
of a search. Saves go through the official client; searches over a raw kept-alive connection.

The server must serve bearers of tokens, which is decided when it starts, so make a token first:

    export MEMPHANT_DATA_DIR=...        # or MEMPHANT_DATABASE_URL and MEMPHANT_INSTALL_URL
    memphant token create --user first --agent first
    memphant serve &
    python bench/load_conversations.py --data-dir DIR --url http://127.0.0.1:8077

Run it with the same MEMPHANT_ variables: `memphant token create` must find the server's database.
What is poured stays there; each run has users of its own. Sets are read from --data-dir and are no
part of the project.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx2
import mcp
from bench.asking import AGENT, LIST, SHOWN
from bench.metrics import figures, percentile
from bench.rawmcp import HANDSHAKE, SELF_CONTAINED, RawClient, RefusedError, endpoint
from bench.sets import EvaluationSet, Memory, Question, read_sets
from mcp.client.streamable_http import streamable_http_client

SETS = ("locomo", "memorybank_en", "memorybank_zh")
SINGLES = 200
NOT_STORED = "not stored"

WITHOUT_TOKENS = """{url} answers without a token: it serves everybody as one local user, and would
until its end. Make a first token with its settings, start it again, then run this again:
    {memphant} token create --user first --agent first"""
UNKNOWN_TOKEN = """{url} does not know the token that `{memphant} token create` has just made: that
command works on another database than the server's. Set the same MEMPHANT_DATA_DIR, or
MEMPHANT_DATABASE_URL and MEMPHANT_INSTALL_URL, as the server has."""


@dataclass(slots=True)
class Poured:
    """What one set became: the ids of its rows, and what was counted on the way."""

    rows: dict[tuple[str, str], str] = field(default_factory=dict)
    rankings: list[list[str]] = field(default_factory=list)
    searches: list[float] = field(default_factory=list)
    saved: int = 0
    seconds: float = 0
    refused: int = 0
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """The server, and how tokens for it are made."""

    url: str
    memphant: str
    version: str

    def check(self) -> None:
        """Ends the program unless the server asks for a token."""
        try:
            with RawClient(self.url, version=self.version) as client:
                client.call("list_memories", limit=1)
        except RefusedError as refused:
            if refused.args[0] == 401:
                return
            raise SystemExit(f"{self.url} answers {refused}") from refused
        except OSError as error:
            raise SystemExit(f"{self.url} cannot be reached: {error}") from error
        raise SystemExit(WITHOUT_TOKENS.format(url=self.url, memphant=self.memphant))

    def token(self, user: str) -> str:
        """A new token, made by the command and known to the server."""
        command = [*shlex.split(self.memphant), "token", "create", "--user", user]
        made = subprocess.run(
            [*command, "--agent", AGENT], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            raise SystemExit(f"{shlex.join(command)}: {made.stderr.strip()}")
        token = made.stdout.strip()
        try:
            with RawClient(self.url, token, self.version) as client:
                client.call("list_memories", limit=1)
        except RefusedError as refused:
            problem = UNKNOWN_TOKEN.format(url=self.url, memphant=self.memphant)
            raise SystemExit(problem if refused.args[0] == 401 else str(refused)) from refused
        return token

    def search(self, token: str, questions: Sequence[Question], poured: Poured) -> None:
        """Asks the questions of one user, one after the other."""
        with RawClient(self.url, token, self.version) as client:
            client.call("list_memories", limit=1)
            for question in questions:
                answer = client.call("search_memories", query=question.text, limit=SHOWN)
                if answer.is_error:
                    raise RuntimeError(f"{question.text}: {answer.text}")
                poured.rankings.append([memory["id"] for memory in answer.structured["memories"]])
                poured.searches.append(answer.seconds)
                poured.cut += answer.structured["next_cursor"] is not None


async def save(url: str, token: str, batches: Sequence[Sequence[Memory]]) -> tuple[Any, float]:
    """The results of save_memory for every memory, and the seconds that the calls took."""
    results: list[dict[str, Any]] = []
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        # certificates are not read for plain HTTP
        httpx2.AsyncClient(headers=headers, timeout=300, verify=False) as http,
        mcp.Client(streamable_http_client(url, http_client=http)) as client,
    ):
        tools = (await client.list_tools()).tools
        schema = next(tool.input_schema for tool in tools if tool.name == "save_memory")
        # a gate that keeps what is worth it only would change the corpus
        gate: dict[str, Any] = {"force": True} if "force" in schema["properties"] else {}
        begun = time.perf_counter()
        for batch in batches:
            given: dict[str, Any] = (
                {**item(batch[0]), **gate}
                if len(batch) == 1
                else {"memories": [{**item(memory), **gate} for memory in batch]}
            )
            result = await client.call_tool("save_memory", given)
            if result.is_error or result.structured_content is None:
                raise RuntimeError(f"save_memory: {result.content}")
            results += result.structured_content["results"]
        return results, time.perf_counter() - begun


def item(memory: Memory) -> dict[str, Any]:
    """A memory as save_memory takes it."""
    given: dict[str, Any] = {"content": memory.text}
    if memory.conversation is not None:
        given["conversation_id"] = memory.conversation
    if memory.occurred_at is not None:
        given["occurred_at"] = memory.occurred_at.isoformat()
    return given


def batched(memories: Sequence[Memory], size: int) -> list[Sequence[Memory]]:
    """Lists of at most `size`, in order."""
    return [memories[start : start + size] for start in range(0, len(memories), size)]


def pour(target: Target, run: str, evaluation: EvaluationSet) -> tuple[Poured, list[Question]]:
    """Saves a set and asks it; the questions are in the order of the rankings."""
    poured = Poured()
    asked: list[Question] = []
    for name, memories in evaluation.by_user().items():
        token = target.token(f"{run}-{evaluation.name}-{name}")
        results, seconds = asyncio.run(save(target.url, token, batched(memories, LIST)))
        for memory, result in zip(memories, results, strict=True):
            stored = result.get("memory")
            poured.rows[name, memory.id] = NOT_STORED if stored is None else stored["id"]
            poured.refused += stored is None
        poured.saved += len(memories)
        poured.seconds += seconds
        own = [question for question in evaluation.questions if question.user == name]
        target.search(token, own, poured)
        asked += own
    return poured, asked


def report(evaluation: EvaluationSet, poured: Poured, asked: Sequence[Question]) -> dict[str, Any]:
    """The figures of one set."""
    relevant = [{poured.rows[q.user, id_] for id_ in q.relevant} for q in asked]
    return {
        "set": evaluation.name,
        "users": len(evaluation.by_user()),
        "memories": poured.saved,
        "questions": len(asked),
        **figures(poured.rankings, relevant),
        "saves_per_s": round(poured.saved / poured.seconds, 1),
        "search_ms_p50": percentile(poured.searches, 50),
        "search_ms_p95": percentile(poured.searches, 95),
        "not_stored": poured.refused,
        "replies_cut_short": poured.cut,
    }


def singly(target: Target, run: str, evaluation: EvaluationSet) -> dict[str, Any]:
    """A sample saved one by one, by a user of its own."""
    sample = evaluation.memories[:SINGLES]
    token = target.token(f"{run}-singly")
    _, seconds = asyncio.run(save(target.url, token, batched(sample, 1)))
    return {"saved_singly": len(sample), "saves_per_s": round(len(sample) / seconds, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="where the sets are")
    parser.add_argument("--url", required=True, help="the running server, such as http://host:8077")
    parser.add_argument("--memphant", default="memphant", help="the command; default: memphant")
    parser.add_argument("--protocol", choices=[HANDSHAKE, SELF_CONTAINED], default=HANDSHAKE)
    given = parser.parse_args()
    sets = [found for found in read_sets(given.data_dir) if found.name in SETS]
    for name in sorted(set(SETS) - {found.name for found in sets}):
        print(f"skipped: {given.data_dir} has no {name}")
    if not sets:
        return
    target = Target(endpoint(given.url), given.memphant, given.protocol)
    target.check()
    run = f"bench-{uuid.uuid4().hex[:8]}"
    for evaluation in sets:
        poured, asked = pour(target, run, evaluation)
        print(json.dumps(report(evaluation, poured, asked)), flush=True)
    print(json.dumps(singly(target, run, sets[0])))


if __name__ == "__main__":
    main()
