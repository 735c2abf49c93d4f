"""mem0's pgvector store on the vectors given: python peers_mem0.py TASK.npz CONNINFO ANSWER.npz

Runs in the environment of requirements-peers.txt, as a process of its own, and imports nothing of
the project. The store is used through its class, with its defaults and without an LLM. Its HNSW
index is dropped while rows come in and built again from its own definition.
"""

import os
import sys
import time
import uuid

os.environ["MEM0_TELEMETRY"] = "False"

import numpy as np
from mem0.vector_stores.pgvector import PGVector  # type: ignore[import-not-found]

BATCH = 1_000
COLLECTION = "mem0"


def store_of(conninfo: str, dimensions: int) -> PGVector:
    return PGVector(
        dbname=None,
        collection_name=COLLECTION,
        embedding_model_dims=dimensions,
        user=None,
        password=None,
        host=None,
        port=None,
        diskann=False,
        hnsw=True,
        connection_string=conninfo,
    )


def fill(store: PGVector, vectors: np.ndarray, owners: np.ndarray) -> None:
    store.create_col()
    with store._get_cursor(commit=True) as cursor:
        cursor.execute("select pg_get_indexdef(%s::regclass)", (f"{COLLECTION}_hnsw_idx",))
        definition = cursor.fetchone()[0]
        cursor.execute(f"drop index {COLLECTION}_hnsw_idx")
    for start in range(0, len(vectors), BATCH):
        rows = range(start, min(start + BATCH, len(vectors)))
        store.insert(
            [vectors[row].tolist() for row in rows],
            [{"user_id": f"u{owners[row]}", "data": str(row)} for row in rows],
            [str(uuid.UUID(int=row)) for row in rows],
        )
    with store._get_cursor(commit=True) as cursor:
        cursor.execute(definition)
        cursor.execute(f"analyze {COLLECTION}")


def main() -> None:
    task = np.load(sys.argv[1])
    vectors = task["vectors"].astype(np.float32)
    begun = time.monotonic()
    store = store_of(sys.argv[2], vectors.shape[1])
    fill(store, vectors, task["owners"])
    filled = time.monotonic() - begun
    found = np.full((len(task["asked"]), 10), -1)
    seconds = np.zeros(len(task["asked"]))
    for turn in range(2):  # the first warms up
        for at, (question, owner) in enumerate(
            zip(task["questions"].astype(np.float32), task["asked"], strict=True)
        ):
            given = question.tolist()
            begun = time.perf_counter()
            hits = store.search("", given, top_k=10, filters={"user_id": f"u{owner}"})
            seconds[at] = time.perf_counter() - begun
            if turn == 1:
                for rank, hit in enumerate(hits):
                    found[at, rank] = int(hit.payload["data"])
    np.savez(sys.argv[3], found=found, seconds=seconds, filled=filled)


if __name__ == "__main__":
    main()
