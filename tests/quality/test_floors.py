"""Floors of quality on real evaluation sets; run with --data-dir, skipped without it."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import asking, time_quality
from bench.metrics import figures
from bench.sets import read_sets
from bench.throwaway import Throwaway, open_database
from bench.vectors import CachedVectors, bundled

FLOORS = {
    # whole search recall@5, @10; keywords alone, with neighbours, recall@10
    "memorybank_zh": (0.93, 0.98, 0.92),
    "memorybank_en": (0.93, 0.96, 0.90),
}


@pytest.fixture(scope="module")
def stage(data_dir: Path) -> Iterator[tuple[Throwaway, CachedVectors]]:
    """A throwaway cluster, and the vectors of the bundled model."""
    assert data_dir
    embedder, vectors = bundled()
    with open_database(embedder) as throwaway:
        yield throwaway, vectors


@pytest.mark.parametrize("name", FLOORS)
def test_a_diary_with_an_assistant_is_searched_at_least_as_well_as_this(
    stage: tuple[Throwaway, CachedVectors], data_dir: Path, name: str
) -> None:
    throwaway, vectors = stage
    evaluation = next(iter(read_sets(data_dir, name)), None)
    if evaluation is None:
        pytest.skip(f"{name} is not in the data folder")
    saved = asking.save(throwaway, evaluation, vectors, f"test-{uuid.uuid4().hex[:8]}")
    asking.analyze(throwaway)
    assert evaluation.asked_at is not None
    with throwaway.settings({"clock.test": evaluation.asked_at.isoformat()}):
        whole = figures(asking.search(throwaway, saved).rankings, saved.relevant())
        words = figures(asking.search(throwaway, saved, vector=False).rankings, saved.relevant())
    at_5, at_10, words_at_10 = FLOORS[name]
    assert whole["recall@5"] >= at_5
    assert whole["recall@10"] >= at_10
    assert words["recall@10"] >= words_at_10


def test_times_are_read_right_and_none_is_seen_where_there_is_none(
    stage: tuple[Throwaway, CachedVectors], data_dir: Path
) -> None:
    throwaway, _ = stage
    with throwaway.connect() as connection:
        found = time_quality.run(data_dir, connection)
    floors = {"time_core": 0.95, "time_en_duckling": 0.85, "time_zh_duckling": 0.85}
    for name, floor in (floors | {"time_zh_jionlp": 0.85}).items():
        if name in found:
            assert found[name]["memphant"]["accuracy"] >= floor, name
    if "no_time" in found:
        assert found["no_time"]["false_window"] <= 0.01
