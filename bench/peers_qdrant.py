"""Qdrant's engine on the vectors given: python peers_qdrant.py TASK.npz FOLDER ANSWER.npz

Runs in the environment of requirements-peers.txt, as a process of its own, and imports nothing of
the project. One shard in process, float32, a payload index that names the field as the tenant's,
and the engine's defaults otherwise; the optimizer has run to its end before anything is asked.
"""

import sys
import time

import numpy as np
import qdrant_edge as qdrant  # type: ignore[import-not-found]

BATCH = 1_000


def fill(folder: str, vectors: np.ndarray, owners: np.ndarray) -> qdrant.EdgeShard:
    parameters = qdrant.EdgeVectorParams(size=vectors.shape[1], distance=qdrant.Distance.Cosine)
    shard = qdrant.EdgeShard.create(folder, qdrant.EdgeConfig(vectors=parameters))
    tenant = qdrant.KeywordIndexParams(is_tenant=True)
    shard.update(qdrant.UpdateOperation.create_field_index("user_id", tenant))
    for start in range(0, len(vectors), BATCH):
        points = [
            qdrant.Point(row, vectors[row].tolist(), {"user_id": f"u{owners[row]}"})
            for row in range(start, min(start + BATCH, len(vectors)))
        ]
        shard.update(qdrant.UpdateOperation.upsert_points(points))
    shard.optimize()
    shard.flush()
    return shard


def main() -> None:
    task = np.load(sys.argv[1])
    begun = time.monotonic()
    shard = fill(sys.argv[2], task["vectors"].astype(np.float32), task["owners"])
    filled = time.monotonic() - begun
    found = np.full((len(task["asked"]), 10), -1)
    seconds = np.zeros(len(task["asked"]))
    for turn in range(2):  # the first warms up
        for at, (question, owner) in enumerate(
            zip(task["questions"].astype(np.float32), task["asked"], strict=True)
        ):
            given = question.tolist()
            begun = time.perf_counter()
            hits = shard.query(
                qdrant.QueryRequest(
                    limit=10,
                    query=qdrant.Query.Nearest(given),
                    filter=qdrant.Filter(
                        must=[
                            qdrant.FieldCondition(
                                key="user_id", match=qdrant.MatchValue(f"u{owner}")
                            )
                        ]
                    ),
                )
            )
            seconds[at] = time.perf_counter() - begun
            if turn == 1:
                found[at, : len(hits)] = [hit.id for hit in hits]
    shard.close()
    np.savez(sys.argv[3], found=found, seconds=seconds, filled=filled)


if __name__ == "__main__":
    main()
