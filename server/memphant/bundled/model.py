"""multilingual-e5-small on onnxruntime: one text, or one window of it, at a time.

One text a run: a batch is no faster on a CPU, and would have to be padded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memphant.bundled.centring import Centring
from memphant.bundled.tokenizer import Tokenizer, cleaned
from memphant.bundled.weights import Weights, data_file

if TYPE_CHECKING:
    from memphant.embedding import Kind

GRAPH = Path(__file__).with_name("e5-rowint8.onnx")

# A query is cut to one window, which never needs more characters; a passage that is longer than
# four times the usual limit of a memory is cut too.
LONGEST = {"query": 8_000, "passage": 32_000}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A text cut into windows of token ids, ready to run."""

    kind: Kind
    windows: list[list[int]]
    shares: NDArray[np.float32]  # of each script, see centring.py


class Model:
    """The loaded model. Safe to use from several threads. Raises WeightsError."""

    def __init__(self, centring: Centring | None = None) -> None:
        self._weights = Weights(data_file())
        vocabulary = self._weights.vocabulary
        self._begin, self._end = vocabulary.bos, vocabulary.eos
        self._tokenizer = Tokenizer(vocabulary)
        self._prefixes = {kind: self._tokenizer.ids(f"{kind}:") for kind in LONGEST}
        self._centring = centring or Centring.load()
        self._session = _session(self._weights)

    def prepare(self, text: str, kind: Kind) -> Prepared:
        """Clean a text and cut it into windows. Raises ValueError if nothing is left of it."""
        clean = cleaned(text, LONGEST[kind])
        if not clean:
            raise ValueError("the text is blank: there is nothing to embed")
        tokens = self._tokenizer.ids(clean)
        size = self._weights.positions - 2 - len(self._prefixes[kind])
        windows = [tokens[i : i + size] for i in range(0, max(1, len(tokens)), size)]
        if kind == "query":
            windows = windows[:1]
        return Prepared(kind, windows, self._centring.shares(clean))

    def run(self, prepared: Prepared, window: int) -> NDArray[np.float32]:
        """Mean of one window's token vectors, as the network gives it."""
        prefix = self._prefixes[prepared.kind]
        tokens = [self._begin, *prefix, *prepared.windows[window], self._end]
        inputs = {"embedded": self._weights.embedded(tokens)}
        pooled: NDArray[np.float32] = self._session.run(None, inputs)[0][0]
        return pooled

    def finish(self, prepared: Prepared, pooled: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        """The text's vector, of length 1: windows averaged by their length, then centred."""
        lengths = np.array([max(1, len(window)) for window in prepared.windows], np.float32)
        mean = lengths @ np.stack(pooled)
        vector = mean / np.linalg.norm(mean)
        return self._centring.apply(vector, prepared.shares, prepared.kind)


def _session(weights: Weights) -> Any:
    # Before the import: with the default, threads that wait burn the core that others need
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    # The runtime documents that it copies these, so they need not outlive this function
    filled = weights.initializers()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in filled.values()]
    options.add_external_initializers(list(filled), values)
    return onnxruntime.InferenceSession(
        GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
