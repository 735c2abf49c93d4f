"""BM25 scores by bm25s: JSON on stdin, NumPy's format into the file that is named.

Runs in the environment of requirements.txt, as a process of its own, and imports nothing of the
project. Given: [{"texts": [...], "questions": [...]}, ...]; made: one matrix of scores for each.
English words are stemmed and lose their stop words, Chinese is characters and pairs of them.
"""

import json
import re
import sys

import bm25s  # type: ignore[import-not-found]
import numpy as np
import Stemmer  # type: ignore[import-not-found]
from bm25s.stopwords import STOPWORDS_EN_PLUS  # type: ignore[import-not-found]

K1, B = 1.2, 0.75
STOP_WORDS = frozenset(STOPWORDS_EN_PLUS)
RUN = re.compile(r"[\u4e00-\u9fff]+|[a-z0-9@._'-]+")
WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
STEMMER = Stemmer.Stemmer("english")


def words(text: str) -> list[str]:
    found: list[str] = []
    for run in RUN.findall(text.lower()):
        if "\u4e00" <= run[0] <= "\u9fff":
            found += run
            found += (run[at : at + 2] for at in range(len(run) - 1))
        else:
            kept = (w for w in WORD.findall(run) if w not in STOP_WORDS)
            found += (STEMMER.stemWord(w) for w in kept if w.split("'")[0] not in STOP_WORDS)
    return found


def main() -> None:
    matrices = {}
    for number, corpus in enumerate(json.load(sys.stdin)):
        index = bm25s.BM25(k1=K1, b=B)
        index.index([words(text) for text in corpus["texts"]], show_progress=False)
        nothing = np.zeros(len(corpus["texts"]), np.float32)
        asked = [words(question) for question in corpus["questions"]]
        matrices[str(number)] = np.stack(
            [index.get_scores(terms) if terms else nothing for terms in asked]
        )
    np.savez(sys.argv[1], allow_pickle=False, **matrices)


if __name__ == "__main__":
    main()
