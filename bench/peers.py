"""Peers on the same vectors and tenants: python bench/peers.py --rows 200000 --json FILE

The tenants of latency.py, their vectors and questions through

  memphant   the vector arm, as the server's role under row-level security
  mem0       the pgvector store of mem0, its own class, in the same cluster (peers_mem0.py)
  qdrant     Qdrant's engine in process, with a payload index on the tenant (peers_qdrant.py)

and recall@10 against comparing everything, and latency, by class of tenant. mem0 and Qdrant live
in an environment of their own, which is installed at first use (requirements-peers.txt), and answer
one after the other: figures of different systems may have met different load on the machine.
The sets are read from --data-dir and are no part of the project; without them nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import psycopg
from bench import arms, asking, staging
from bench.environment import python_with
from bench.exact import Exact
from bench.latency import SETTINGS
from bench.metrics import percentile
from bench.tenants import NOISE, Population, populate
from bench.throwaway import Throwaway, open_database
from bench.vectors import bundled

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements-peers.txt"
PACKAGES = {"mem0": "mem0ai", "qdrant": "qdrant-edge-py"}
TENANTS = 20

Figures = dict[str, Any]


def ours(server: psycopg.Connection, exact: Exact, queries: list[arms.Query]) -> Figures:
    """The vector arm; the first pass warms up."""
    seconds, recalls = [], []
    for turn in range(2):
        for query in queries:
            server.execute(arms.IDENTITY, query.given)
            rows, took = arms.run(server, arms.VECTOR, query.given)
            if turn == 1:
                seconds.append(took)
                recalls.append(exact.recall(query.tenant, query.question, [row[0] for row in rows]))
    return _figures(recalls, seconds)


def peer(
    name: str,
    target: str,
    folder: Path,
    exact: Exact,
    population: Population,
    queries: list[arms.Query],
) -> tuple[list[float], list[float], float]:
    """Recall and seconds of every query, and the seconds that filling took."""
    answer = folder / f"{name}.npz"
    program = [python_with(REQUIREMENTS), HERE / f"peers_{name}.py", folder / "task.npz"]
    subprocess.run([*program, target, answer], check=True)
    places = population.places
    with np.load(answer) as made:
        recalls = [
            exact.recall(
                query.tenant, query.question, [int(places[row]) for row in rows if row >= 0]
            )
            for query, rows in zip(queries, made["found"], strict=True)
        ]
        return recalls, made["seconds"].tolist(), float(made["filled"])


def compare(throwaway: Throwaway, population: Population, count: int) -> Figures:
    """Every system on every class."""
    exact = Exact(population)
    classes: dict[str, Figures] = {}
    of_class: dict[str, list[arms.Query]] = {}
    with throwaway.connect() as server:
        for rows, tenants in population.classes().items():
            queries = arms.queries(server, population, tenants[:TENANTS], count)
            of_class[str(rows)] = queries
            classes[str(rows)] = {"memphant": ours(server, exact, queries)}
    every = [query for queries in of_class.values() for query in queries]
    filled = {}
    assert throwaway.superuser is not None
    with tempfile.TemporaryDirectory(prefix="memphant-bench-") as temporary:
        folder = Path(temporary)
        np.savez(
            folder / "task.npz",
            vectors=population.vectors,
            owners=population.owner,
            questions=np.stack([population.question_vectors[query.question] for query in every]),
            asked=np.array([query.tenant for query in every]),
        )
        for name, target in (("mem0", throwaway.superuser), ("qdrant", str(folder / "shard"))):
            recalls, seconds, filled[name] = peer(name, target, folder, exact, population, every)
            start = 0
            for size, queries in of_class.items():
                end = start + len(queries)
                classes[size][name] = _figures(recalls[start:end], seconds[start:end])
                start = end
            print(f"{name}: filled in {filled[name]:.0f} s", file=sys.stderr)
    return {"rows": len(population.contents), "classes": classes, "fill_seconds": filled}


def versions() -> dict[str, str]:
    """Of the peers' packages."""
    code = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    shown = subprocess.run(
        [python_with(REQUIREMENTS), "-c", code, *PACKAGES.values()],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(PACKAGES.values(), shown.stdout.split(), strict=True))


def table(report: Figures) -> str:
    """A line for each class and system."""
    lines = [f"{'rows':>8}  {'system':<10}{'recall@10':>10}{'p50 ms':>9}{'p95 ms':>9}"]
    for size, systems in report["classes"].items():
        for name, found in systems.items():
            lines.append(
                f"{size:>8}  {name:<10}{found['recall@10']:>10.3f}"
                f"{found['ms_p50']:>9.2f}{found['ms_p95']:>9.2f}"
            )
    return "\n".join(lines)


def _figures(recalls: list[float], seconds: list[float]) -> Figures:
    return {
        "recall@10": round(float(np.mean(recalls)), 4),
        "ms_p50": percentile(seconds, 50),
        "ms_p95": percentile(seconds, 95),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000, help="memories of all tenants")
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument(
        "--data-dir", type=Path, default=Path("../shared/data"), help="where the sets are"
    )
    parser.add_argument("--queries", type=int, default=100, help="questions to each class")
    parser.add_argument("--noise", type=float, default=NOISE, help="length added to each vector")
    parser.add_argument("--shared-buffers", default="2GB", help="of the throwaway cluster")
    given = parser.parse_args()
    begun = time.monotonic()
    embedder, vectors = bundled()
    with open_database(embedder, {**SETTINGS, "shared_buffers": given.shared_buffers}) as throwaway:
        try:
            population = populate(
                given.rows,
                given.data_dir,
                vectors,
                lambda texts: asking.indexed_texts(throwaway, texts),
                given.noise,
            )
        except FileNotFoundError as error:
            print(f"skipped: {error}")
            return
        report: Figures = {"about": versions()}
        staging.load(throwaway, population)
        report = {**compare(throwaway, population, given.queries), **report}
    report["about"]["seconds"] = round(time.monotonic() - begun, 1)
    given.json.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
