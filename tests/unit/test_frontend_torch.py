"""PyTorch modules into float graphs that compute the same, whatever the layout and folding."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from mcutrain.errors import InputError, UnsupportedError
from mcutrain.frontends.torch import from_torch
from mcutrain.ir.graph import Graph
from mcutrain.ir.ops import evaluate
from mcutrain.ir.serialize import network_hash

pytest.importorskip("torch")
import torch
from tests.torch_networks import check, maps, randomise

nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.torch


def kinds(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


class Net(nn.Module):
    """A body that keeps maps, then flatten and classifier."""

    def __init__(self, body: Any, shape: tuple[int, int, int], flat: int | None = None) -> None:
        super().__init__()
        self.body = body
        if flat is None:
            with torch.no_grad():
                flat = copy.deepcopy(body).eval()(torch.zeros(1, *shape)).numel()
        self.classifier = nn.Linear(flat, 3)

    def forward(self, x: Any) -> Any:
        return self.classifier(torch.flatten(self.body(x), 1))


CONVS = {
    "plain": (nn.Conv2d(3, 4, 3), (3, 6, 5)),
    "pad": (nn.Conv2d(3, 4, (3, 5), padding=(1, 2)), (3, 6, 5)),
    "no bias": (nn.Conv2d(2, 5, 2, bias=False), (2, 5, 4)),
    "groups": (nn.Conv2d(4, 6, 3, groups=2, padding=1), (4, 5, 5)),
    "depthwise": (nn.Conv2d(4, 4, 3, groups=4, stride=(2, 1)), (4, 7, 5)),
    "t35 odd, stride 2": (nn.Conv2d(1, 3, 3, stride=2, padding=1), (1, 15, 15)),
    "t35 even, stride 2": (nn.Conv2d(1, 3, 3, stride=2, padding=1), (1, 16, 16)),
    "t37 same, odd kernel": (nn.Conv2d(3, 2, 5, padding="same"), (3, 8, 7)),
    "t37 same, even kernel": (nn.Conv2d(3, 2, (2, 4), padding="same"), (3, 8, 7)),
    "t37 valid": (nn.Conv2d(3, 2, 3, padding="valid"), (3, 8, 7)),
    "t37 as TensorFlow pads": (
        nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(3, 2, 3, stride=2)),
        (3, 16, 16),
    ),
    "t38 four pads": (
        nn.Sequential(nn.ZeroPad2d((1, 2, 4, 0)), nn.Conv2d(3, 2, (5, 3))),
        (3, 6, 5),
    ),
    "pad twice": (nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(3, 2, 5, padding=2)), (3, 6, 5)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("conv", "shape"), CONVS.values(), ids=CONVS)
def test_convolutions(conv: Any, shape: tuple[int, int, int]) -> None:
    graph = check(Net(conv, shape), shape)
    assert kinds(graph)[0] == "conv2d"


def test_t38_four_pads_stay_four() -> None:
    body, shape = CONVS["t38 four pads"]
    assert from_torch(Net(body, shape), shape).nodes[0].attrs["pad"] == (4, 1, 0, 2)


POOLS = {
    "avg": nn.AvgPool2d(2),
    "avg padded": nn.AvgPool2d(3, stride=2, padding=1),
    "avg of padding": nn.Sequential(nn.ZeroPad2d((1, 0, 0, 1)), nn.AvgPool2d(3)),
    "max": nn.MaxPool2d(2),
    "max padded": nn.MaxPool2d((3, 2), stride=(2, 1), padding=1),
    "max ceil": nn.MaxPool2d(3, stride=2, ceil_mode=True),
    "adaptive": nn.AdaptiveAvgPool2d((4, 2)),
    "global": nn.AdaptiveAvgPool2d(1),
    "keep height": nn.AdaptiveAvgPool2d((None, 1)),
}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_pools(pool: Any) -> None:
    check(Net(pool, (3, 8, 6)), (3, 8, 6))


class Means(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.classifier = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        x = self.conv(x)
        kept = x.mean([-1, -2], keepdim=True).squeeze(-1).squeeze(-1)
        return self.classifier(x.mean((2, 3)) + x.mean(3).mean(2) + kept)


def test_means_and_squeezes() -> None:
    graph = check(Means(), (2, 5, 6))
    assert kinds(graph).count("avgpool") == 4


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(5, 4), (1, 6), (1, 1)])
def test_t48_flatten_of_a_map(channels: int, size: tuple[int, int]) -> None:
    shape = (channels, *size)
    graph = check(Net(nn.Sequential(nn.Conv2d(channels, channels, 1), nn.ReLU()), shape), shape)
    assert graph.tensors["x"].shape == (*size, channels)


class FlatCat(nn.Module):
    """Two flattened maps one behind the other, a batch norm, and its sum with them."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 2, 3)
        self.b = nn.Conv2d(3, 3, 3, stride=2)
        self.norm = nn.BatchNorm1d(18 + 12)
        self.classifier = nn.Linear(30, 2)

    def forward(self, x: Any) -> Any:
        flat = torch.cat([self.a(x).flatten(1), self.b(x).view(x.size(0), -1)], 1)
        return self.classifier(F.relu(self.norm(flat)) + flat)


def test_t48_concat_norm_and_sum_of_flattened_maps() -> None:
    check(FlatCat(), (3, 5, 5))


class Unflatten(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.conv = nn.Conv2d(channels, 2, 3)
        self.classifier = nn.Linear(2 * 2 * (6 // channels - 2), 2)

    def forward(self, x: Any) -> Any:
        x = self.conv(x.view(x.size(0), self.channels, 4, 6 // self.channels))
        return self.classifier(x.flatten(1))


def test_t48_a_flat_input_becomes_a_map_only_with_one_channel() -> None:
    check(Unflatten(1), (24,))
    with pytest.raises(UnsupportedError, match="move data") as error:
        from_torch(Unflatten(2), (24,))
    assert error.value.where == "view"


NORMS = {
    "after conv": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
        ["conv2d", "reshape", "linear"],
    ),
    "t51 alone": (nn.BatchNorm2d(3), ["conv2d", "reshape", "linear"]),
    "t51 after a clamp": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.ReLU()),
        ["conv2d", "conv2d", "reshape", "linear"],
    ),
    "two in a row": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)),
        ["conv2d", "reshape", "linear"],
    ),
}


@pytest.mark.parametrize(("body", "expected"), NORMS.values(), ids=NORMS)
def test_t51_batch_norms(body: Any, expected: list[str]) -> None:
    net = Net(body, (3, 6, 5)).train()
    graph = from_torch(net, (3, 6, 5))
    assert net.training
    assert net.body.training
    assert kinds(graph) == expected
    assert kinds(check(net, (3, 6, 5))) == expected


def test_t51_a_batch_norm_alone_is_a_depthwise_convolution() -> None:
    node = from_torch(Net(nn.BatchNorm2d(3), (3, 4, 4)), (3, 4, 4)).nodes[0]
    assert (node.name, node.attrs["groups"], node.params["weight"].shape) == (
        "body",
        3,
        (3, 1, 1, 1),
    )


def test_batch_norm_of_linear_layers() -> None:
    net = nn.Sequential(
        nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2), nn.BatchNorm1d(2)
    )
    graph = check(net, (5,))
    assert kinds(graph) == ["linear", "linear"]


def test_t04_a_folded_layer_is_named_as_unknown() -> None:
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    graph = from_torch(Net(body, (3, 6, 5)), (3, 6, 5))
    assert graph.node("body.0").op == "conv2d"
    with pytest.raises(InputError, match=r"no layer 'body\.1'") as error:
        graph.node("body.1")
    assert "body.0" in str(error.value)


CLAMPS = {
    "relu": (nn.ReLU(), (0.0, None)),
    "relu6": (nn.ReLU6(), (0.0, 6.0)),
    "hardtanh": (nn.Hardtanh(-0.5, 0.75), (-0.5, 0.75)),
    "in place": (nn.ReLU(inplace=True), (0.0, None)),
    "two": (nn.Sequential(nn.ReLU6(), nn.Hardtanh(-1, 0.5)), (0.0, 0.5)),
    "disjoint": (nn.Sequential(nn.Hardtanh(-2, -1), nn.ReLU()), (0.0, 0.0)),
    "through a max pool": (nn.Sequential(nn.MaxPool2d(2, padding=1), nn.ReLU()), (0.0, None)),
    "dropout between": (nn.Sequential(nn.Dropout(), nn.Identity(), nn.ReLU()), (0.0, None)),
}


@pytest.mark.parametrize(("clamp", "limits"), CLAMPS.values(), ids=CLAMPS)
def test_clamps_fold(clamp: Any, limits: tuple[float | None, float | None]) -> None:
    graph = check(Net(nn.Sequential(nn.Conv2d(3, 4, 3), clamp), (3, 6, 6)), (3, 6, 6))
    assert "clamp" not in kinds(graph)
    assert graph.nodes[0].attrs["clamp"] == limits


def test_t32_a_clamp_without_a_producer_stands_alone() -> None:
    graph = check(Net(nn.Sequential(nn.ReLU(), nn.Conv2d(3, 4, 3)), (3, 6, 6)), (3, 6, 6))
    assert kinds(graph)[0] == "clamp"
    after_mean = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AvgPool2d(2), nn.ReLU())
    assert kinds(check(Net(after_mean, (3, 6, 6)), (3, 6, 6)))[:3] == ["conv2d", "avgpool", "clamp"]


class TwoReaders(nn.Module):
    """The value before the ReLU is needed, too."""

    def __init__(self, norm: bool, inplace: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.after = nn.BatchNorm2d(2) if norm else nn.ReLU(inplace)
        self.classifier = nn.Linear(2, 3)

    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        return self.classifier((self.after(y) + y).mean((2, 3)))


@pytest.mark.parametrize("norm", [False, True])
def test_t33_a_convolution_with_two_readers_is_not_fused(norm: bool) -> None:
    graph = check(TwoReaders(norm), (2, 5, 5))
    assert kinds(graph) == ["conv2d", "conv2d" if norm else "clamp", "add", "avgpool", "linear"]
    assert "clamp" not in graph.nodes[0].attrs


def test_t33_in_place_the_second_reader_sees_the_clamped_value() -> None:
    graph = check(TwoReaders(norm=False, inplace=True), (2, 5, 5))
    assert kinds(graph) == ["conv2d", "add", "avgpool", "linear"]


class DeadReader(TwoReaders):
    def forward(self, x: Any) -> Any:
        y = self.conv(x)
        _ = F.max_pool2d(y, 2) + 1.0
        return self.classifier(self.after(y).mean((2, 3)))


def test_dead_code_neither_stays_nor_stops_a_fold() -> None:
    graph = check(DeadReader(norm=False), (2, 5, 5))
    assert kinds(graph) == ["conv2d", "avgpool", "linear"]


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Conv2d(3, 4, 3)
        self.sensor = nn.Linear(5, 6)
        self.classifier = nn.Linear(10, 2)

    def forward(self, picture: Any, motion: Any) -> Any:
        left = F.relu(self.image(picture)).mean((2, 3))
        return self.classifier(torch.cat((left, F.relu(self.sensor(motion))), dim=-1))


def test_t50_two_inputs_and_a_concat() -> None:
    graph = check(TwoInputs(), (3, 6, 5), (5,))
    assert graph.inputs == ("picture", "motion")
    assert graph.tensors["motion"].shape == (1, 1, 5)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.ReLU())
        self.classifier = nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.block(self.block(x)).mean((2, 3)))


def test_a_module_called_twice_gives_two_names() -> None:
    graph = check(Shared(), (2, 5, 5))
    assert [n.name for n in graph.nodes] == ["block.0", "block.0@1", "mean", "classifier"]


def test_a_softmax_at_the_end_is_dropped() -> None:
    net = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    x = torch.randn(2, 5)
    expected = evaluate(from_torch(net, (5,)), {"input": maps(x)})
    for last in (nn.Softmax(1), nn.LogSoftmax(1)):
        graph = from_torch(nn.Sequential(*net, last), (5,))
        got = evaluate(graph, {"input": maps(x)})
        np.testing.assert_array_equal(got[graph.output], expected["2"])


def test_tracing_is_deterministic_and_changes_nothing() -> None:
    net = randomise(Net(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (3, 5, 5))).train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    hashes = {
        network_hash(from_torch(net, (3, 5, 5), name="n", classes=("a", "b", "c"))) for _ in "ab"
    }
    assert len(hashes) == 1
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
