"""What the PyTorch frontend refuses: it names the layer and says what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from mcutrain.errors import InputError, ToolchainError, UnsupportedError
from mcutrain.frontends.torch import from_torch

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


class Written(nn.Module):
    """A forward method of its own on a map (2, 6, 6), between a convolution and the classifier."""

    def __init__(self, forward: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.classifier = nn.Linear(2, 3)
        self.written = forward

    def forward(self, x: Any) -> Any:
        y = self.written(self.conv(x), x)
        return self.classifier(y.mean((2, 3)))


WRITTEN = {
    "broadcast": (lambda y, x: y + x.mean((2, 3), keepdim=True), "add", "broadcasting"),
    "constant": (lambda y, _: y + 1.0, "add", "constant"),
    "scaled": (lambda y, x: torch.add(y, x, alpha=2), "add", "alpha"),
    "product": (lambda y, x: y * x, "mul", "not supported"),
    "cat of rows": (lambda y, x: torch.cat((y, x), 2), "cat", "only channels"),
    "permute": (lambda y, _: y.permute(0, 1, 3, 2), "permute", "not supported"),
    "mean of channels": (lambda y, _: y + y.mean(1, keepdim=True), "mean", "height and width"),
    "pad with ones": (lambda y, _: F.max_pool2d(F.pad(y, (1, 1), value=1.0), 2), "pad", "zeros"),
    "pad, then max pool": (lambda y, _: F.max_pool2d(F.pad(y, (1, 1)), 2), "max_pool2d", "padding"),
    "reflect": (lambda y, _: F.pad(y, (1, 1, 1, 1), mode="reflect"), "pad", "zeros"),
    "softmax inside": (lambda y, _: y.softmax(1), "softmax", "at the end"),
    "dropout that drops": (
        lambda y, _: F.dropout(y, 0.5, training=True),
        "native_dropout",
        "not supp",
    ),
    "batch statistics": (lambda y, _: F.batch_norm(y, None, None, training=True), "batch_norm", ""),
    "regroup": (lambda y, _: y.view(-1, 4, 3, 6).view(-1, 2, 6, 6), "view", "move data"),
}


@pytest.mark.parametrize(("forward", "operator", "text"), WRITTEN.values(), ids=WRITTEN)
def test_operators_in_a_forward_method(forward: Any, operator: str, text: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        from_torch(nn.Sequential(Written(forward)), (2, 6, 6))
    assert operator in str(error.value.where)
    assert str(error.value.where).startswith("0.")
    assert text in str(error.value)


MODULES = {
    "gelu": (nn.GELU(), "gelu"),
    "dilation": (nn.Conv2d(2, 2, 3, dilation=2), "dilat"),
    "transposed": (nn.ConvTranspose2d(2, 2, 3), "transpose"),
    "activation in a block": (nn.Sequential(nn.ReLU(), nn.SiLU()), "silu"),
    "instance norm": (nn.InstanceNorm2d(2), "norm"),
    "uneven adaptive pool": (nn.AdaptiveAvgPool2d(4), "divides"),
    "average without padding": (nn.AvgPool2d(3, padding=1, count_include_pad=False), "include_pad"),
    "average ceil": (nn.AvgPool2d(4, ceil_mode=True), "ceil_mode"),
    "padding as large as the kernel": (nn.Conv2d(2, 2, 1, padding=1), "smaller than the kernel"),
    "linear over columns": (nn.Linear(6, 6), "flat"),
}


@pytest.mark.parametrize(("module", "text"), MODULES.values(), ids=MODULES)
def test_modules(module: Any, text: str) -> None:
    net = nn.Sequential()
    net.add_module("first", nn.Conv2d(2, 2, 1))
    net.add_module("odd", module)
    net.add_module("flat", nn.Flatten())
    features = net(torch.zeros(2, 2, 6, 6)).shape[1]
    net.add_module("classifier", nn.Linear(features, 3))
    with pytest.raises(UnsupportedError, match=text) as error:
        from_torch(net, (2, 6, 6))
    assert str(error.value.where).startswith("odd")


def test_the_hint_lists_what_is_supported() -> None:
    with pytest.raises(UnsupportedError, match=r"supported: Conv1d/2d, Linear"):
        from_torch(nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2)), (4,))


class Odd(nn.Module):
    """Something wrong with the whole network."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.fc = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        y = self.fc(x)
        return {
            "branch": lambda: y if self.kind != "branch" or x.sum() > 0 else -y,
            "mixed": lambda: y.reshape(-1),
            "two outputs": lambda: (y, y),
            "constant": lambda: self.fc.bias.expand(2, 2),
            "relu at the end": lambda: F.relu(y),
            "only a pool": lambda: x,
        }[self.kind]()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("branch", "cannot trace"),
        ("mixed", "mixes samples"),
        ("two outputs", "one tensor"),
        ("relu at the end", "end in a linear layer"),
        ("only a pool", "end in a linear layer"),
    ],
)
def test_whole_networks(kind: str, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text):
        from_torch(Odd(kind), (4,))


class Ignores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, used: Any, _: Any) -> Any:
        return self.fc(used)


def test_an_unused_input_is_named() -> None:
    with pytest.raises(UnsupportedError, match="does not use") as error:
        from_torch(Ignores(), [(4,), (3, 2, 2)])
    assert error.value.where == "_"


def test_a_shape_that_the_module_cannot_take() -> None:
    with pytest.raises(UnsupportedError, match="cannot trace") as error:
        from_torch(nn.Linear(4, 2), (5,))
    assert "[2, 5]" in str(error.value)
    assert "?shape=HxWxC" in error.value.hint


@pytest.mark.parametrize("shape", [(), (0, 3, 3), (1, 2, 3, 4), [(3, 3, 3), (1, 2, 3, 4)]])
def test_shapes_that_are_no_maps(shape: Any) -> None:
    with pytest.raises(InputError, match="input shape"):
        from_torch(nn.Linear(4, 2), shape)


def test_weights_that_are_not_finite_name_the_layer() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    net[0].weight.data[0, 0] = float("nan")
    with pytest.raises(InputError, match="finite") as error:
        from_torch(net, (4,))
    assert error.value.where == "0"


def test_without_torch_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ToolchainError, match="not installed"):
        from_torch(nn.Linear(4, 2), (4,))


@pytest.mark.parametrize("thing", [None, 5, nn.Linear, [nn.Linear(2, 2)]])
def test_what_is_no_module_is_refused(thing: Any) -> None:
    with pytest.raises(InputError, match="no PyTorch module"):
        from_torch(thing, (2,))


def test_classes_that_do_not_fit_say_what_to_change() -> None:
    with pytest.raises(InputError, match="another number of classes") as caught:
        from_torch(nn.Sequential(nn.Linear(4, 5)), (4,), classes=("a", "b"))
    assert "2 classes, 5 outputs" in str(caught.value)
    assert caught.value.hint


def test_large_global_pool_says_how_to_split_it() -> None:
    layers = (nn.Conv2d(1, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2))
    with pytest.raises(UnsupportedError, match="255 rows and columns") as caught:
        from_torch(nn.Sequential(*layers), (1, 20, 700))
    assert "20 x 700" in str(caught.value.why)
