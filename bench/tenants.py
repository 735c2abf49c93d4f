"""Tenants of very different size, whose memories are resampled from the evaluation sets.

One tenant has 30 % of the rows, four have 5 % each, sixty 0.5 %, four hundred 0.05 %. All draw from
the same mixture: runs of twenty consecutive turns of the sets' conversations, with some words
exchanged for others of the same set, and the vector of the turn with a little noise. The
conversations of all tenants come in random order, as they would over time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench.sets import EvaluationSet, Question, read_sets
from bench.vectors import CachedVectors
from numpy.typing import NDArray

SHARES = ((1, 0.3), (4, 0.05), (60, 0.005), (400, 0.0005))
"""How many tenants have which share of the rows."""

TURNS = 20  # of a conversation
EXCHANGED = 0.15  # of the words of a text
NOISE = 0.3  # length of what is added to a vector of length 1
QUERIES = 1_000
UNIT = re.compile(r"[A-Za-z]{3,}|[\u4e00-\u9fff]")
FIRST_HAN = "\u4e00"

Half = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Tenant:
    """`size` names its class."""

    user: str
    size: int


@dataclass(frozen=True, slots=True)
class Population:
    """Rows in the order of saving. owner, conversation (numbered from 1) and turn are per row."""

    tenants: list[Tenant]
    owner: NDArray[np.int64]
    conversation: NDArray[np.int64]
    turn: NDArray[np.int64]
    contents: list[str]
    vectors: Half
    questions: list[str]
    question_vectors: Half

    @property
    def places(self) -> NDArray[np.int64]:
        """memory.memories.place of each row."""
        return self.conversation * 2**20 + self.turn

    def classes(self) -> dict[int, list[int]]:
        """The tenants of each size, the largest first."""
        found: dict[int, list[int]] = {}
        for number, tenant in enumerate(self.tenants):
            found.setdefault(tenant.size, []).append(number)
        return dict(sorted(found.items(), reverse=True))

    def rows_of(self, tenant: int) -> NDArray[np.int64]:
        """The rows of one tenant."""
        return np.flatnonzero(self.owner == tenant)


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive turns of one conversation partner, and the words to exchange with."""

    texts: list[str]
    vectors: NDArray[np.float32]
    words: list[str]
    characters: list[str]


def sizes(rows: int) -> list[Tenant]:
    """The tenants of a population of about so many rows."""
    return [
        Tenant(f"tenant-{max(1, round(rows * share))}-{number}", max(1, round(rows * share)))
        for count, share in SHARES
        for number in range(1, count + 1)
    ]


def populate(
    rows: int,
    folder: Path,
    vectors: CachedVectors,
    indexed: Callable[[list[str]], list[str]],
    noise: float = NOISE,
    seed: int = 1,
) -> Population:
    """Draws the rows and the questions. `indexed` tells what of a content is embedded.

    Raises FileNotFoundError if the folder holds no set.
    """
    sets = list(read_sets(folder))
    if not sets:
        raise FileNotFoundError(f"{folder} holds no evaluation sets")
    random = np.random.default_rng(seed)
    runs = [run for found in sets for run in _runs(found, vectors, indexed)]
    chances = np.array([len(run.texts) for run in runs], float)
    chances /= chances.sum()
    tenants = sizes(rows)
    slots = [
        (number, min(TURNS, tenant.size - start))
        for number, tenant in enumerate(tenants)
        for start in range(0, tenant.size, TURNS)
    ]
    owner, conversation, turn = [], [], []
    contents: list[str] = []
    drawn: list[NDArray[np.float32]] = []
    known: list[set[str]] = [set() for _ in tenants]
    for number, slot in enumerate(random.permutation(len(slots)), 1):
        tenant, length = slots[slot]
        run = runs[int(random.choice(len(runs), p=chances))]
        start = int(random.integers(max(1, len(run.texts) - length + 1)))
        # a short conversation begins anew
        picked = [(start + i) % len(run.texts) for i in range(length)]
        for i, at in enumerate(picked):
            owner.append(tenant)
            conversation.append(number)
            turn.append(i)
            contents.append(_varied(run.texts[at], run, random, known[tenant]))
        drawn.append(_noisy(run.vectors[picked], noise, random))
    asked = _questions(sets, random)
    return Population(
        tenants,
        np.array(owner),
        np.array(conversation),
        np.array(turn),
        contents,
        np.concatenate(drawn).astype(np.float16),
        [question.text for question in asked],
        vectors([question.text for question in asked], "query").astype(np.float16),
    )


def _runs(
    found: EvaluationSet, vectors: CachedVectors, indexed: Callable[[list[str]], list[str]]
) -> list[_Run]:
    units = [unit for memory in found.memories for unit in UNIT.findall(memory.text)]
    characters = [unit for unit in units if unit >= FIRST_HAN]
    words = [unit for unit in units if unit < FIRST_HAN]
    made = []
    for memories in found.by_user().values():
        texts = [memory.text for memory in memories]
        made.append(_Run(texts, vectors(indexed(texts), "passage"), words, characters))
    return made


def _varied(text: str, run: _Run, random: np.random.Generator, known: set[str]) -> str:
    """The text with some units exchanged; nothing that the tenant has already."""
    units = len(UNIT.findall(text))
    chances = iter(random.random(units))
    places = iter(random.integers(2**31, size=units))

    def exchange(match: re.Match[str]) -> str:
        chance, place = next(chances), next(places)
        pool = run.characters if match[0] >= FIRST_HAN else run.words
        return pool[place % len(pool)] if chance < EXCHANGED else match[0]

    made = UNIT.sub(exchange, text)
    pool = run.words or run.characters
    while " ".join(made.split()) in known:
        made += f" {pool[int(random.integers(len(pool)))]}"
    known.add(" ".join(made.split()))
    return made


def _noisy(
    vectors: NDArray[np.float32], noise: float, random: np.random.Generator
) -> NDArray[np.float32]:
    added = random.normal(size=vectors.shape)
    moved = vectors + added * noise / np.linalg.norm(added, axis=1, keepdims=True)
    made: NDArray[np.float32] = (moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(
        np.float32
    )
    return made


def _questions(sets: Sequence[EvaluationSet], random: np.random.Generator) -> list[Question]:
    """Questions of all sets, each set as often as its memories are drawn."""
    chances = np.array([len(found.memories) for found in sets], float)
    chances /= chances.sum()
    return [
        sets[at].questions[int(random.integers(len(sets[at].questions)))]
        for at in random.choice(len(sets), QUERIES, p=chances)
    ]
