"""Where the time of a search over MCP goes: python bench/mcp_latency.py --json FILE

Four servers answer the same questions in turn over raw kept-alive connections (rawmcp.py):

  empty       the same libraries, a tool that does nothing
  same_reply  the same, and a reply as large as that of a search
  endpoint    memphant with an embedding endpoint that answers at once
  bundled     memphant with the bundled model

Of each the latency of a call, and the CPU that its process used for one. Embedding and SQL are also
measured by themselves: the embedder in this process, and the statement of a search over one
connection. Then of each of memphant's calls

  protocol    the call of same_reply (empty: without what a reply costs)
  embedding   the embedder by itself
  sql         the statement by itself
  own         what is left: settings, pool, checks, logs

in ms of time and of the server's CPU. The database holds one conversation of LoCoMo. It also counts
the statements that Postgres sees for a search. The set is read from --data-dir and is no part of
the project; without it nothing is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import asking
from bench.alone import LIMIT, WARMING, Figures, embedding_alone, sql_alone, statements
from bench.metrics import percentile
from bench.processes import ServerProcess, endpoint_at_once, serving
from bench.rawmcp import HANDSHAKE, SELF_CONTAINED, RawClient
from bench.sets import EvaluationSet, read_sets
from bench.throwaway import Throwaway, open_database
from bench.vectors import CachedVectors, bundled

from memphant.embedding import EmbeddingSettings, build_embedder

HERE = Path(__file__).resolve().parent
SERVE = ("-m", "memphant.cli", "serve")
SET, QUESTIONS = "locomo", 100


def one_conversation(folder: Path) -> EvaluationSet | None:
    """The memories and questions of the set's first user."""
    for found in read_sets(folder, SET):
        user = found.memories[0].user
        return EvaluationSet(
            found.name,
            [memory for memory in found.memories if memory.user == user],
            [question for question in found.questions if question.user == user][:QUESTIONS],
        )
    return None


def talk(
    servers: dict[str, ServerProcess], questions: Sequence[str], rounds: int, version: str
) -> dict[str, Figures]:
    """Latency and CPU per call of each, the servers in turn for every question."""
    with contextlib.ExitStack() as stack:
        clients = {
            name: stack.enter_context(RawClient(server.url, version=version))
            for name, server in servers.items()
        }
        for question in questions[:WARMING]:
            for client in clients.values():
                client.call("search_memories", query=question, limit=LIMIT)
        before = {name: server.cpu() for name, server in servers.items()}
        seconds: dict[str, list[float]] = {name: [] for name in servers}
        for question in list(questions) * rounds:
            for name, client in clients.items():
                answer = client.call("search_memories", query=question, limit=LIMIT)
                if answer.is_error:
                    raise RuntimeError(f"{name}: {answer.text}")
                seconds[name].append(answer.seconds)
        calls = len(questions) * rounds
        return {
            name: {
                "ms_p50": percentile(seconds[name], 50),
                "ms_p95": percentile(seconds[name], 95),
                "cpu_ms": round(1000 * (server.cpu() - before[name]) / calls, 3),
            }
            for name, server in servers.items()
        }


def shares(calls: dict[str, Figures], name: str, embedding: Figures, sql: Figures) -> Figures:
    """How time and CPU of one of memphant's calls divide."""
    found: Figures = {}
    for measure in ("ms_p50", "cpu_ms"):
        protocol = calls["same_reply"][measure]
        rest = calls[name][measure] - protocol - embedding[measure] - sql[measure]
        found[measure] = {
            "whole": calls[name][measure],
            "protocol": protocol,
            "embedding": embedding[measure],
            "sql": sql[measure],
            "own": round(rest, 3),
        }
    return found


def measure(conversation: EvaluationSet, rounds: int, version: str) -> Figures:
    """Starts everything, and measures it."""
    embedder, vectors = bundled()
    texts = [question.text for question in conversation.questions]
    asked = vectors(texts, "query")
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(endpoint_at_once(dict(zip(texts, asked, strict=True))))
        options = EmbeddingSettings(base_url=url, model="at-once", dimensions=embedder.dimensions)
        databases = {
            "endpoint": stack.enter_context(open_database(build_embedder(options))),
            "bundled": stack.enter_context(open_database(embedder)),
        }
        servers: dict[str, ServerProcess] = {}
        who = {name: _save(database, conversation, vectors) for name, database in databases.items()}
        for name, database in databases.items():
            settings = {"embedding_base_url": url, "embedding_model": "at-once"}
            settings["embedding_dimensions"] = str(embedder.dimensions)
            servers[name] = stack.enter_context(
                serving(
                    SERVE,
                    port="0",
                    database_url=database.server,
                    install_url=database.owner,
                    user=who[name],
                    agent=asking.AGENT,
                    **(settings if name == "endpoint" else {}),
                )
            )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with RawClient(servers["endpoint"].url) as client:
            reply = client.call("search_memories", query=texts[0], limit=LIMIT)
        (folder / "reply.json").write_text(json.dumps(reply.structured))
        empty = HERE / "empty_server.py"
        servers["empty"] = stack.enter_context(serving([empty]))
        servers["same_reply"] = stack.enter_context(serving([empty, folder / "reply.json"]))

        calls = talk(servers, texts, rounds, version)
        sql = sql_alone(databases["bundled"], who["bundled"], texts, asked)
        alone = {
            "endpoint": embedding_alone(build_embedder(options), texts),
            "bundled": embedding_alone(embedder, texts),
        }
        return {
            "calls": calls,
            "embedding_alone": alone,
            "sql_alone": sql,
            "shares": {name: shares(calls, name, alone[name], sql) for name in databases},
            "statements_per_search": statements(databases["bundled"], servers["bundled"], texts),
            "reply_bytes": len(json.dumps(reply.structured)) + len(reply.text),
            "memories": len(conversation.memories),
        }


def _save(throwaway: Throwaway, conversation: EvaluationSet, vectors: CachedVectors) -> str:
    """Saves the conversation; the name of its user."""
    saved = asking.save(throwaway, conversation, vectors, "bench")
    asking.analyze(throwaway)
    return saved.user(conversation.memories[0].user)


def table(report: Figures) -> str:
    """The figures as lines for a terminal."""
    lines = [f"{'call':<12}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}"]
    for name, found in report["calls"].items():
        lines.append(
            f"{name:<12}{found['ms_p50']:>9.2f}{found['ms_p95']:>9.2f}{found['cpu_ms']:>9.2f}"
        )
    for name, measures in report["shares"].items():
        for measure_name, found in measures.items():
            parts = "  ".join(f"{part} {value:.2f}" for part, value in found.items())
            lines.append(f"{name} {measure_name}: {parts}")
    lines.append(f"statements per search: {report['statements_per_search']}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument(
        "--data-dir", type=Path, default=Path("../shared/data"), help="where the sets are"
    )
    parser.add_argument("--rounds", type=int, default=3, help="times that each question is asked")
    parser.add_argument("--protocol", choices=[HANDSHAKE, SELF_CONTAINED], default=HANDSHAKE)
    given = parser.parse_args()
    conversation = one_conversation(given.data_dir)
    if conversation is None:
        print(f"skipped: {given.data_dir} has no {SET}")
        return
    report = measure(conversation, given.rounds, given.protocol)
    report["about"] = {"machine": platform.machine(), "protocol": given.protocol}
    given.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
