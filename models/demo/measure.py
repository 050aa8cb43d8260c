"""What the demo's update scheme gains in float: the figures in this folder's README.md.

    python -m models.demo.measure

Follows the device's recipe (batch norm folded, batch 1, plain SGD, one pass over the samples), but
in float32 throughout. Takes about a minute on one core.
"""

from __future__ import annotations

import copy
import json
import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

import mcutrain.data
from models import demo
from models.demo.pretrain import accuracy, tensors

SEEDS = (0, 1, 2)
SAMPLES = 1000


def folded(module: nn.Module) -> nn.Module:
    """A copy in which every convolution has taken in the batch norm behind it."""
    module = copy.deepcopy(module).eval()
    for stage in list(module.modules()):
        if not isinstance(stage, nn.Sequential):
            continue
        for i in range(len(stage) - 1):
            conv, norm = stage[i], stage[i + 1]
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                stage[i], stage[i + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()
    return module


def scheme_parameters(module: nn.Module) -> list[str]:
    """Names of the parameters that the demo's scheme trains, the classifier's included."""
    scheme = json.loads(demo.SCHEME.read_text(encoding="utf-8"))
    layers = [name for name, layer in module.named_modules() if isinstance(layer, nn.Conv2d)]
    return [
        *[f"{layer}.bias" for layer in layers[len(layers) - scheme["bias_last"] :]],
        *[f"{layer}.weight" for layer in scheme["weights"]],
        "classifier.weight",
        "classifier.bias",
    ]


def rate(step: int, steps: int, peak: float) -> float:
    """Learning rate of a step: linear warm-up, then a cosine to 0."""
    warm = round(steps * demo.WARM_UP)
    if step < warm:
        return peak * (step + 1) / warm
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))


def adapt(
    module: nn.Module, names: list[str], peak: float, x: torch.Tensor, y: torch.Tensor
) -> nn.Module:
    """A copy of the module, trained on one sample after the other."""
    module = copy.deepcopy(module)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name in names)
    trained = [p for p in module.parameters() if p.requires_grad]
    for step in range(len(x)):
        loss = functional.cross_entropy(module(x[step : step + 1]), y[step : step + 1])
        gradients = torch.autograd.grad(loss, trained)
        with torch.no_grad():
            for parameter, gradient in zip(trained, gradients, strict=True):
                parameter.sub_(gradient, alpha=rate(step, len(x), peak))
    return module


def main() -> None:
    torch.set_num_threads(1)
    module = folded(demo.load())
    held_out = tensors(mcutrain.data.open(f"fashion-mnist:test?shift={demo.SHIFT}"))
    upright = tensors(mcutrain.data.open("fashion-mnist:test"))
    print(f"test images {accuracy(module, *upright):.1f} %")
    print(f"new camera {accuracy(module, *held_out):.1f} %")
    head = ["classifier.weight", "classifier.bias"]
    schemes = [("classifier only", head, peak) for peak in (0.2, 0.4, 0.8)]
    schemes += [("scheme.json", scheme_parameters(module), peak) for peak in (0.01, 0.02, 0.04)]
    for name, parameters, peak in schemes:
        results = []
        for seed in SEEDS:
            samples = tensors(
                mcutrain.data.open(
                    f"fashion-mnist:train?skip=50000&seed={seed}&count={SAMPLES}&shift={demo.SHIFT}"
                )
            )
            results.append(accuracy(adapt(module, parameters, peak, *samples), *held_out))
        text = ", ".join(f"{r:.1f}" for r in results)
        print(f"{name}, peak rate {peak}: {text} %", flush=True)


if __name__ == "__main__":
    main()
