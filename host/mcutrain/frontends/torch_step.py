"""What PyTorch itself takes for one training step of a network: measured, in a process of its own.

    python -m mcutrain.frontends.torch_step NET

prints JSON: bytes of the process at its peak, and what the step added. fp32, batch 1, all weights
train, plain SGD. It needs Linux, which tells a process its own memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcutrain.errors import ToolchainError
from mcutrain.ir.graph import Graph, Node
from mcutrain.ir.serialize import load, save
from mcutrain.quantize.dequantize import dequantize

_SECONDS = 300


@dataclass(frozen=True)
class TorchMemory:
    """Bytes of resident memory: the whole process at its peak, and of it what the step added."""

    process: int
    step: int


def measure_torch(graph: Graph) -> TorchMemory:
    """Run one training step in a fresh process.

    Args:
        graph: a quantised network; it is trained in fp32.

    Raises:
        ToolchainError: PyTorch is not installed, or the process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.net.npz"
        save(graph, path)
        command = [sys.executable, "-m", "mcutrain.frontends.torch_step", str(path)]
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=_SECONDS
        )
    if done.returncode:
        raise ToolchainError(
            "PyTorch's memory cannot be measured",
            why=(done.stderr.strip().splitlines() or ["no message"])[-1],
            hint="pip install 'mcutrain[torch]'",
        )
    return TorchMemory(**json.loads(done.stdout))


def main(net: str) -> None:
    """The measured process."""
    graph = dequantize(load(Path(net)))
    step = _Step(graph)
    before = _status("VmRSS")
    # Linux: "5" sets the peak to what is resident now, so that importing PyTorch does not count.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    step.run()
    after = _status("VmHWM")
    sys.stdout.write(json.dumps({"process": after, "step": after - before}) + "\n")


def _status(name: str) -> int:
    """Bytes that Linux reports of this process."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in text.splitlines() if line.startswith(name)).split()[1]) * 1024


class _Step:
    def __init__(self, graph: Graph) -> None:
        import torch

        self.torch: Any = torch
        torch.set_num_threads(1)
        self.graph = graph
        self.params = {
            node.name: [
                torch.nn.Parameter(torch.tensor(self._layout(node))),
                torch.nn.Parameter(torch.tensor(node.params["bias"])),
            ]
            for node in graph.nodes
            if node.params
        }
        every = [p for pair in self.params.values() for p in pair]
        self.optimizer = torch.optim.SGD(every, lr=0.01)
        self.inputs = {
            name: torch.rand(1, graph.tensors[name].shape[2], *graph.tensors[name].shape[:2])
            for name in graph.inputs
        }

    @staticmethod
    def _layout(node: Node) -> Any:
        weight = node.params["weight"]
        return weight.reshape(len(weight), -1) if node.op == "linear" else _oihw(weight)

    def run(self) -> None:
        torch = self.torch
        values = dict(self.inputs)
        for node in self.graph.nodes:
            xs = [values[name] for name in node.inputs]
            values[node.output] = self._clamped(node, self._apply(node, xs))
        logits = values[self.graph.output].reshape(1, -1)
        torch.nn.functional.cross_entropy(logits, torch.tensor([0])).backward()
        self.optimizer.step()

    def _apply(self, node: Node, xs: Sequence[Any]) -> Any:
        torch, f = self.torch, self.torch.nn.functional
        if node.op == "conv2d":
            x = f.pad(xs[0], _pads(node))
            stride, groups = node.attrs["stride"], node.attrs.get("groups", 1)
            return f.conv2d(x, *self.params[node.name], stride, 0, 1, groups)
        if node.op == "linear":
            return f.linear(xs[0].reshape(1, -1), *self.params[node.name]).reshape(1, -1, 1, 1)
        if node.op in ("avgpool", "maxpool"):
            pool = f.avg_pool2d if node.op == "avgpool" else f.max_pool2d
            fill = 0.0 if node.op == "avgpool" else float("-inf")
            x = f.pad(xs[0], _pads(node), value=fill)
            return pool(x, node.attrs["kernel"], node.attrs["stride"])
        if node.op == "add":
            return xs[0] + xs[1]
        if node.op == "concat":
            return torch.cat(list(xs), 1)
        h, w, c = self.graph.tensors[node.output].shape
        return xs[0].reshape(1, c, h, w)  # clamp, reshape

    @staticmethod
    def _clamped(node: Node, y: Any) -> Any:
        lo, hi = node.attrs.get("clamp", (None, None))
        return y if lo is None and hi is None else y.clamp(lo, hi)


def _oihw(weight: Any) -> Any:
    return weight.transpose(0, 3, 1, 2).copy()


def _pads(node: Node) -> tuple[int, int, int, int]:
    """PyTorch's order: left, right, top, bottom."""
    top, left, bottom, right = node.attrs.get("pad", (0, 0, 0, 0))
    return left, right, top, bottom


if __name__ == "__main__":
    main(sys.argv[1])
