"""Quality of retrieval: python bench/quality.py --data-dir DIR --json FILE

Saves every evaluation set through memory.save_list and asks its questions through memory.search, as
the server's role, under row-level security. Of each set it tells recall@5, recall@10 and mrr of

  memphant       the whole search: words and vector
  keyword        the search without a vector
  keyword_alone  the same with the settings of neighbours, priors and bonuses at 0: BM25 as it is
  vector         the vectors alone, every memory of the tenant compared
  bm25, e5, weighted   baselines without a database, see baselines.py

--setting search.keyword_share=0.45 tries other weights: rows of memory.settings, for this run only.
Sets are read from --data-dir and are not part of the project.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import asking, baselines, time_quality
from bench.metrics import Figures, figures, percentile
from bench.sets import EvaluationSet, read_sets
from bench.throwaway import Throwaway, open_database
from bench.vectors import CachedVectors, bundled, engine

Report = dict[str, Any]

# what comes after the keyword arm or is lent to it: every weight but the one that scales it
ALONE = re.compile(r"search\.(?!full_weight$)(neighbour_.*|.*_(weight|bonus|boost))")


def measure(
    throwaway: Throwaway, evaluation: EvaluationSet, vectors: CachedVectors, e5: CachedVectors
) -> tuple[Report, Report]:
    """The figures of one set, and what they took."""
    saved = asking.save(throwaway, evaluation, vectors, f"bench-{uuid.uuid4().hex[:8]}")
    asking.analyze(throwaway)
    clock = {} if evaluation.asked_at is None else {"clock.test": evaluation.asked_at.isoformat()}
    with throwaway.settings(clock):
        answers = {"memphant": asking.search(throwaway, saved)}
        if not evaluation.parallel:
            answers["keyword"] = asking.search(throwaway, saved, vector=False)
            names = [name for name in throwaway.setting_names() if ALONE.fullmatch(name)]
            with throwaway.settings(dict.fromkeys(names, 0)):
                answers["keyword_alone"] = asking.search(throwaway, saved, vector=False)
        answers["vector"] = asking.nearest(throwaway, saved)
    relevant = saved.relevant()
    report = {
        system: _by_group(evaluation, answer.rankings, relevant)
        for system, answer in answers.items()
    }
    if evaluation.parallel:
        report = _by_direction(report)
    else:
        right = [question.relevant for question in evaluation.questions]
        for system, rankings in baselines.rankings(evaluation, e5).items():
            report[system] = _by_group(evaluation, rankings, right)
    if throwaway.superuser is None:
        asking.remove(throwaway, saved)
    took = {
        "saves_per_s": round(len(evaluation.memories) / saved.seconds),
        **{
            f"{system}_ms_p50": percentile(answer.seconds, 50) for system, answer in answers.items()
        },
    }
    return report, took


def _by_group(
    evaluation: EvaluationSet, rankings: Sequence[Sequence[str]], relevant: Sequence[Any]
) -> Report:
    """All questions together, and by group where there are several."""
    groups: dict[str, list[int]] = {}
    for at, question in enumerate(evaluation.questions):
        groups.setdefault(question.group, []).append(at)
    of_group = {
        group: figures([rankings[at] for at in members], [relevant[at] for at in members])
        for group, members in sorted(groups.items())
    }
    total: Report = dict(figures(rankings, relevant))
    return total | ({"by_category": of_group} if len(of_group) > 1 else {})


def _by_direction(report: Report) -> Report:
    """A parallel set: first the direction, then the system."""
    directions: Report = {}
    for system, found in report.items():
        for direction, values in found["by_category"].items():
            directions.setdefault(direction, {})[system] = values
    return directions


def table(report: Report) -> str:
    """The figures in percent, a line for each set and system."""
    lines = [f"{'set':<16}{'system':<15}{'recall@5':>9}{'recall@10':>10}{'mrr':>7}"]

    def line(name: str, system: str, values: Figures) -> None:
        shown = [100 * values[key] for key in ("recall@5", "recall@10", "mrr")]
        lines.append(f"{name:<16}{system:<15}{shown[0]:>9.1f}{shown[1]:>10.1f}{shown[2]:>7.1f}")

    for name, found in report.items():
        if name == "about":
            continue
        if name.startswith(("time_", "no_time")):
            lines.append(f"{name:<16}{json.dumps(found)}")
            continue
        for system, values in found.items():
            if "recall@5" in values:
                line(name, system, values)
                continue
            for inner, direction in values.items():
                line(f"{name} {system}", inner, direction)
        for group, values in found.get("memphant", {}).get("by_category", {}).items():
            line(name, f"  {group}", values)
    return "\n".join(lines)


def setting(text: str) -> tuple[str, object]:
    """NAME=VALUE, the value as JSON."""
    name, _, value = text.partition("=")
    return name, json.loads(value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="where the sets are")
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument("--only", choices=["retrieval", "time"], help="one part")
    parser.add_argument("--set", help="one set, such as locomo")
    parser.add_argument(
        "--setting",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a row of memory.settings for this run; may be repeated",
    )
    given = parser.parse_args()
    begun = time.perf_counter()
    embedder, vectors = bundled()
    e5 = engine()
    report: Report = {}
    took: Report = {}
    with open_database(embedder) as throwaway, throwaway.settings(dict(given.setting)):
        if given.only in (None, "retrieval"):
            for evaluation in read_sets(given.data_dir, given.set):
                report[evaluation.name], took[evaluation.name] = measure(
                    throwaway, evaluation, vectors, e5
                )
        if given.only in (None, "time") and given.set is None:
            with throwaway.connect() as connection:
                report |= time_quality.run(given.data_dir, connection)
    report["about"] = {
        "model": embedder.name,
        "settings": dict(given.setting),
        "machine": platform.machine(),
        "seconds": round(time.perf_counter() - begun, 1),
        "took": took,
    }
    given.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(table(report))
    print(json.dumps(report["about"], ensure_ascii=False))


if __name__ == "__main__":
    main()
