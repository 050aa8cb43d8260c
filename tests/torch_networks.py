"""Comparing a traced PyTorch module with the module itself. Importing this needs torch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from mcutrain.frontends.torch import from_torch
from mcutrain.ir.graph import Graph
from mcutrain.ir.ops import evaluate


def randomise(module: Any, seed: int = 0) -> Any:
    """Batch norms as after training: statistics and weights that are not 0 and 1."""
    torch.manual_seed(seed)
    for m in module.modules():
        if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2.0)
            if m.affine:
                nn.init.normal_(m.weight, 1.0, 0.3)
                nn.init.normal_(m.bias)
    return module


def maps(x: Any) -> np.ndarray:
    """(N, C, H, W), (N, C, L) or (N, n) to (N, H, W, C)."""
    array = x.numpy()
    array = array[..., None] if array.ndim == 3 else array
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array[:, None, None, :]


def check(module: Any, *shapes: tuple[int, ...]) -> Graph:
    """Trace, and compare with PyTorch in float64: only folded weights are rounded to float32."""
    randomise(module)
    graph = from_torch(module, shapes)
    exact = copy.deepcopy(module).double().eval()
    xs = [torch.randn(3, *shape, dtype=torch.float64) for shape in shapes]
    with torch.no_grad():
        expected = exact(*[x.clone() for x in xs]).numpy()
    got = evaluate(graph, dict(zip(graph.inputs, map(maps, xs), strict=True)))[graph.output]
    np.testing.assert_allclose(got.reshape(expected.shape), expected, atol=1e-5, rtol=1e-5)
    return graph
