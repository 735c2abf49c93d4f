"""What each step of the ranking brings: python bench/ablation.py --data-dir DIR --json FILE

Every set is saved once and asked again with one step left out at a time (rows of memory.settings).
Writes recall@5 and recall@10 of each variant on every set, and prints them as a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import asking
from bench.metrics import figures
from bench.sets import EvaluationSet, read_sets
from bench.throwaway import Throwaway, open_database
from bench.vectors import bundled

LENT = ("before", "after", "before_2", "after_2")
VARIANTS: dict[str, dict[str, float]] = {
    "everything": {},
    "without lending per word": {f"search.neighbour_{turn}": 0 for turn in LENT},
    "without lending of scores": {"search.neighbour_score": 0},
    "without the speaker": {"search.speaker_bonus": 0},
    "without value": {"search.value_weight": 0},
    "without the kind of answer": {"search.answer_weight": 0},
    "without the time in the query as a boost": {"search.window_boost": 0},
    "without recency, confidence, use": {
        "search.recency_weight": 0,
        "search.confidence_weight": 0,
        "search.use_weight": 0,
    },
    "without making up for other scripts": {"search.foreign_share": 0},
    "keyword share 0.4": {"search.keyword_share": 0.4},
    "keyword share 0.6": {"search.keyword_share": 0.6},
    "twice the value": {"search.value_weight": 0.3},
    "100 candidates of each arm": {"search.candidates": 100},
}


def measure(throwaway: Throwaway, evaluation: EvaluationSet, vectors: Any) -> dict[str, Any]:
    """Figures of every variant on one set."""
    saved = asking.save(throwaway, evaluation, vectors, f"ablation-{uuid.uuid4().hex[:8]}")
    asking.analyze(throwaway)
    relevant = saved.relevant()
    clock = {} if evaluation.asked_at is None else {"clock.test": evaluation.asked_at.isoformat()}
    found: dict[str, Any] = {}
    for name, values in VARIANTS.items():
        with throwaway.settings({**clock, **values}):
            answers = asking.search(throwaway, saved)
        if not evaluation.parallel:
            found[name] = figures(answers.rankings, relevant)
            continue
        across = [at for at, q in enumerate(evaluation.questions) if q.group in ("en-zh", "zh-en")]
        found[name] = figures(
            [answers.rankings[at] for at in across], [relevant[at] for at in across]
        )
    return found


def table(report: dict[str, dict[str, Any]]) -> str:
    """recall@5 / recall@10 in percent; sets as columns. xquad: across languages only."""
    lines = [
        "| variant | " + " | ".join(report) + " |",
        "|---|" + "---|" * len(report),
    ]
    for variant in VARIANTS:
        cells = [
            f"{100 * found[variant]['recall@5']:.1f} / {100 * found[variant]['recall@10']:.1f}"
            for found in report.values()
        ]
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="where the sets are")
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    given = parser.parse_args()
    embedder, vectors = bundled()
    with open_database(embedder) as throwaway:
        report = {
            evaluation.name: measure(throwaway, evaluation, vectors)
            for evaluation in read_sets(given.data_dir)
        }
    given.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
