"""What retrieval is compared with: BM25, dense vectors, and both, whole corpus in memory.

No tenants, no filters, no database. Each gives ids in the order of its scores.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from bench.environment import python_with
from bench.sets import EvaluationSet, Memory, Question
from bench.vectors import CachedVectors
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
SHOWN = 10

Scores = NDArray[np.float32]
Rankings = list[list[str]]


def rankings(evaluation: EvaluationSet, e5: CachedVectors) -> dict[str, Rankings]:
    """For every baseline the first ids of each question, in the order of the questions.

    bm25: see bm25.py. e5: the vectors given. weighted: half and half, each scaled per question to
    run from 0 to 1.
    """
    users = evaluation.by_user()
    asked: dict[str, list[int]] = {user: [] for user in users}
    for at, question in enumerate(evaluation.questions):
        asked[question.user].append(at)
    given = [
        (memories, [evaluation.questions[at] for at in asked[user]])
        for user, memories in users.items()
    ]
    empty: list[str] = []
    found: dict[str, Rankings] = {
        name: [empty] * len(evaluation.questions) for name in ("bm25", "e5", "weighted")
    }
    lexical = _bm25(given)
    for user, (memories, questions), words in zip(users, given, lexical, strict=True):
        if not questions:
            continue
        dense = _dense(memories, questions, e5)
        weighted = ((_scaled(words) + _scaled(dense)) / 2).astype(np.float32)
        scores = {"bm25": words, "e5": dense, "weighted": weighted}
        for name, matrix in scores.items():
            for at, row in zip(asked[user], matrix, strict=True):
                best = np.argsort(-row, kind="stable")[:SHOWN]
                found[name][at] = [memories[place].id for place in best]
    return found


def _dense(memories: list[Memory], questions: list[Question], e5: CachedVectors) -> Scores:
    passages = e5([memory.text for memory in memories], "passage")
    scores: Scores = e5([question.text for question in questions], "query") @ passages.T
    return scores


def _bm25(given: list[tuple[list[Memory], list[Question]]]) -> list[Scores]:
    corpora = [
        {
            "texts": [memory.text for memory in memories],
            # a matrix needs a row
            "questions": [question.text for question in questions] or [""],
        }
        for memories, questions in given
    ]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "scores.npz"
        command = [python_with(HERE / "requirements.txt"), HERE / "bm25.py", target]
        subprocess.run(command, input=json.dumps(corpora), text=True, check=True)
        with np.load(target) as matrices:
            return [matrices[str(number)] for number in range(len(corpora))]


def _scaled(scores: Scores) -> Scores:
    low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
    scaled: Scores = (scores - low) / (high - low + 1e-9)
    return scaled
