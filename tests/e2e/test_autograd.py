"""Errors and gradients of the integer arithmetic against float64 autograd."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from tests.networks import NetworkBuilder, residual_network

from mcutrain.compile import compile_program
from mcutrain.ir.graph import Graph, Node, QParams
from mcutrain.ir.program import Program
from mcutrain.ir.reference.machine import Machine
from mcutrain.plan import Plan
from mcutrain.plan.scheme import resolve_scheme

pytest.importorskip("torch")
from tests.oracle import Oracle, differentiate

pytestmark = pytest.mark.torch

SEEDS = 256


def _sample(graph: Graph, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    size = sum(graph.tensors[name].size for name in graph.inputs)
    return rng.integers(-128, 128, size).astype(np.int8)


def _even_scales(graph: Graph) -> Graph:
    """Weight scales whose ratio to the largest is exact in 8 bits, so that r[o] does not round."""
    rng = np.random.default_rng(5)
    for node in graph.nodes[:-1]:
        if "w_scale" in node.params:
            groups = int(node.attrs.get("groups", 1))
            scale = node.params["w_scale"].reshape(groups, -1)
            steps = rng.integers(96, 257, scale.shape)
            steps[:, 0] = 256
            scale[:] = scale.mean() * steps / 256
    return graph


def _warm_predictors(program: Program, sample: np.ndarray, label: int) -> np.ndarray:
    """Predictors that have seen the sample, with a bit of room: nothing saturates."""
    machine = Machine(program)
    for _ in range(12):
        machine.train(sample, label, 0.0)
    return machine.runtime.predictor + 200


def _runs_over_seeds(
    program: Program, sample: np.ndarray, label: int
) -> tuple[Machine, dict[str, np.ndarray]]:
    """All int8 errors (in real units) and weight gradients, (SEEDS, ...), by name."""
    predictors = _warm_predictors(program, sample, label)
    seen: dict[str, list[np.ndarray]] = {}
    for seed in range(SEEDS):
        machine = Machine(program, seed=seed)
        machine.runtime.predictor[:] = predictors
        result = machine.train(sample, label, 0.0)
        assert result.saturated == 0
        for name, value in program.values.items():
            if value.error is not None and value.view_of is None:
                exponent = machine.runtime.exponent_of(machine.memory, name)
                real = np.ldexp(machine.memory.array(name).astype(np.float64), exponent)
                seen.setdefault(name, []).append(real)
        for name, gradient in machine.runtime.gradients.items():
            seen.setdefault(f"d:{name}", []).append(gradient.copy())
    return machine, {name: np.stack(runs) for name, runs in seen.items()}


# Fixed-point multipliers M[g] have 14 bits and more where an error is of use; up to 8 in a row.
MULTIPLIER_ERROR = 8 * 2.0**-14


def _assert_unbiased(name: str, runs: np.ndarray, wanted: np.ndarray) -> None:
    """The mean over the seeds is the gradient, within four standard errors.

    Held for the component along the gradient, which a wrong factor, mask or sign changes, and for
    each element; of the elements one in 16,000 may miss by chance.
    """
    along = (runs * wanted).reshape(SEEDS, -1).sum(1) / (wanted**2).sum()
    deviation = along.std(ddof=1) / np.sqrt(SEEDS)
    assert abs(along.mean() - 1) < 4 * deviation + MULTIPLIER_ERROR, f"{name}: {along.mean()}"
    error = runs.std(0, ddof=1) / np.sqrt(SEEDS)
    slack = MULTIPLIER_ERROR * np.abs(wanted).max()
    z = np.abs(runs.mean(0) - wanted) / (error + slack / 4 + 1e-300)
    assert (z > 4).sum() <= 1 + z.size / 16000 * 4, f"{name}: {(z > 4).sum()} of {z.size} elements"
    assert z.max() < 6, f"{name}: an element is {z.max():.1f} standard errors off"


def _check_network(graph: Graph, plan: Plan, label: int = 1) -> None:
    graph = _even_scales(graph)
    program = compile_program(graph, plan).program
    sample = _sample(graph)
    machine, runs = _runs_over_seeds(program, sample, label)
    oracle = differentiate(graph, machine, label)
    assert float(machine.runtime.loss) == pytest.approx(float(oracle.loss.detach()), rel=1e-5)
    for name, seen in runs.items():
        wanted = _oracle_value(graph, program, oracle, name)
        if wanted is not None and wanted.any():
            _assert_unbiased(name, seen, wanted)


def _oracle_value(graph: Graph, program: Program, oracle: Oracle, name: str) -> np.ndarray | None:
    if name.endswith(".error"):
        tensor = name.removesuffix(".error")
        gradient = oracle.gradient(tensor)
        mask = program.values.get(f"{tensor}.mask")
        # Our error is that of the value before the clamp.
        return gradient if mask is None else gradient * oracle.masks[tensor]
    if not name.startswith("d:") or not name.endswith(".trained"):
        return None
    layer = name.removeprefix("d:").removesuffix(".trained")
    node = graph.node(layer)
    q = graph.tensors[node.inputs[0]].q
    assert q is not None
    gradient = oracle.weight_gradient(layer)
    perm = program.values.get(f"{layer}.perm")
    if perm is not None:
        assert perm.data is not None
        shape = program.values[f"{layer}.trained"].shape
        depthwise = node.attrs.get("groups", 1) > 1
        count = shape[0] if depthwise else shape[2]
        gradient = np.take(gradient, perm.data[:count], 0 if depthwise else 3)
    return gradient.reshape(program.values[f"{layer}.trained"].shape) / q.scale


Build = Callable[[], Graph]


def _five_layers() -> Graph:
    b = NetworkBuilder((5, 5, 2), 3, "five")
    x = b.conv("c0", "x", 4, 3, 1, 1, relu=True)
    y = b.conv("c1", x, 4, 3, 1, 1, groups=4, relu=True)
    z = b.conv("c2", y, 4)
    s = b.add("sum", x, z)
    return b.head(b.linear("c3", b.pool("avgpool", "pool", s, 2, 2), 6), 3)


LAYERS = ("c0", "c1", "c2", "c3")


@pytest.mark.parametrize("mask", list(itertools.product((False, True), repeat=5)), ids=str)
def test_t13_every_freeze_mask_trains_just_what_it_says(mask: tuple[bool, ...]) -> None:
    """Frozen layers stay, others move, and errors reach them through what is frozen."""
    graph = _five_layers()
    names = tuple(n for n, on in zip(LAYERS, mask[:4], strict=True) if on)
    channels = {"c0": 2, "c1": 4, "c2": 4, "c3": 16}
    plan = Plan(names, {n: tuple(range(channels[n])) for n in names}, head=mask[4])
    compiled = compile_program(graph, plan)
    machine = Machine(compiled.program)
    before = machine.state_bytes(compiled)
    whole = Machine(compile_program(graph, resolve_scheme(graph, "full")).program)
    sample = _sample(graph)
    for m in (machine, whole):
        m.runtime.predictor[:] = 0
    machine.train(sample, 1, 0.05)
    whole.train(sample, 1, 0.05)
    assert np.array_equal(machine.memory.array("classifier:0"), whole.memory.array("classifier:0"))
    for name in names:
        value = compiled.program.values[f"{name}.trained"]
        at = compiled.value_offsets[value.name]
        assert machine.memory.raw(value.name) != before[at : at + value.nbytes], name
    trained = {v for v in compiled.program.values if v.endswith(".trained")}
    assert trained == {f"{n}.trained" for n in names}
    weight = machine.memory.array("classifier.weight")
    moved = not np.array_equal(weight.reshape(-1), graph.head.params["weight"].reshape(-1))
    assert moved == mask[4]


@pytest.mark.slow
@pytest.mark.parametrize("mask", list(itertools.product((False, True), repeat=5)), ids=str)
def test_t13_gradients_of_every_freeze_mask(mask: tuple[bool, ...]) -> None:
    """All 2^5 masks: mean int8 errors and weight gradients agree with autograd."""
    graph = _five_layers()
    names = tuple(n for n, on in zip(LAYERS, mask[:4], strict=True) if on)
    channels = {"c0": 2, "c1": 4, "c2": 4, "c3": 16}
    plan = Plan(names, {n: tuple(range(channels[n])) for n in names}, head=mask[4])
    _check_network(graph, plan)


def _conv_network(kernel: int, stride: int, pad: int, size: int, groups: int) -> Graph:
    b = NetworkBuilder((size, size, 4), kernel * 100 + stride * 10 + pad, "grid")
    x = b.conv("c0", "x", 4, relu=True)
    y = b.conv("c1", x, 4 if groups == 4 else 6, kernel, stride, pad, groups=groups, relu=True)
    return b.head(b.global_pool("pool", y), 3)


GRID = [
    (k, s, p, size, groups)
    for k, s, p, size, groups in itertools.product((1, 3, 5), (1, 2), (0, 1, 2), (6, 7), (1, 2, 4))
    if p < k and size + 2 * p >= k
]


def _unrounded_check(graph: Graph, label: int = 1) -> None:
    """Each dX on the int8 error it was given, against the vector-Jacobian product of its layer."""
    import torch

    program = compile_program(graph, resolve_scheme(graph, "full")).program
    sample = _sample(graph)
    predictors = _warm_predictors(program, sample, label)
    machine = Machine(program)
    machine.runtime.predictor[:] = predictors
    machine.train(sample, label, 0.0)
    oracle = differentiate(graph, machine, label)
    for node in graph.nodes[:-1]:
        if node.op != "conv2d" or f"{node.inputs[0]}.error" not in program.values:
            continue
        error = f"{node.output}.error"
        exponent = machine.runtime.exponent_of(machine.memory, error)
        given = np.ldexp(machine.memory.array(error).astype(np.float64), exponent)
        upstream = torch.from_numpy(given.transpose(2, 0, 1)[None].copy())
        x = oracle.tensors[node.inputs[0]].detach().requires_grad_()
        y = _conv(node, x, oracle.weights[node.name].detach())
        (wanted,) = torch.autograd.grad(y, x, upstream)
        wanted = wanted[0].permute(1, 2, 0).numpy()
        got = machine.runtime.unrounded[f"{node.inputs[0]}.error"]
        masked = oracle.masks.get(node.inputs[0])
        wanted = wanted if masked is None else wanted * masked
        assert np.abs(got - wanted).max() <= _rounding_bound(node, given), node.name


def _conv(node: Node, x: object, weight: object) -> object:
    import torch.nn.functional as F

    t, left, b, r = node.attrs["pad"]
    padded = F.pad(x, (left, r, t, b))
    return F.conv2d(padded, weight, None, node.attrs["stride"], groups=node.attrs["groups"])


def _rounding_bound(node: Node, given: np.ndarray) -> float:
    """What fixed-point r[o] (half of 2^-8 of the largest scale) and M[g] may change in one sum."""
    w = node.params["weight"]
    terms = w.shape[0] // int(node.attrs["groups"]) * w.shape[1] * w.shape[2]
    scale, amax = node.params["w_scale"].max(), np.abs(given).max()
    return float(terms * 127 * scale * amax * (2.0**-9 + 2.0**-12))


@pytest.mark.parametrize("case", GRID, ids=str)
def test_t14_unrounded_errors_of_a_grid_of_convolutions(
    case: tuple[int, int, int, int, int],
) -> None:
    _unrounded_check(_conv_network(*case))


HAND_PICKED = [(1, 1, 0, 6, 1), (3, 2, 1, 7, 1), (3, 2, 1, 6, 4), (5, 1, 2, 7, 2), (5, 2, 2, 7, 4)]


@pytest.mark.parametrize("case", HAND_PICKED, ids=str)
def test_t14_int8_errors_agree_on_average(case: tuple[int, int, int, int, int]) -> None:
    graph = _conv_network(*case)
    _check_network(graph, resolve_scheme(graph, "full"))


def _concat_network() -> Graph:
    b = NetworkBuilder((6, 6, 2), 11, "concat")
    b.input("y", (6, 6, 3))
    joined = b.concat("cat", b.conv("c1", "x", 4, 3, 1, 1), b.conv("c2", "y", 5))
    clamped = b.clamp("clamp", joined, -60, 70)
    return b.head(b.global_pool("pool", b.conv("c3", clamped, 6)), 3)


def _pool_network() -> Graph:
    b = NetworkBuilder((7, 7, 2), 12, "pools")
    x = b.conv("c1", "x", 4, 3, 1, 1)
    x = b.pool("maxpool", "max", x, 3, 2, 1)
    x = b.conv("c2", x, 5)
    x = b.reshape("flat", b.pool("avgpool", "avg", x, 2, 2), (1, 1, 20))
    return b.head(b.linear("fc", x, 7), 3)


def _shared_network() -> Graph:
    b = NetworkBuilder((6, 6, 2), 13, "shared")
    x = b.conv("c0", "x", 4)
    y = b.add("sum", b.conv("c1", x, 4), b.conv("c2", x, 4, 3, 1, 1))
    z = b.add("sum2", b.add("sum1", x, y), y)
    return b.head(b.global_pool("pool", z), 3)


NETWORKS: Mapping[str, Build] = {
    "residual": residual_network,
    "concat and clamp": _concat_network,
    "pools and linear": _pool_network,
    "shared tensors": _shared_network,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_int8_errors_agree_on_average(name: str) -> None:
    graph = NETWORKS[name]()
    _check_network(graph, resolve_scheme(graph, "full"))


def test_partly_trained_layers_have_the_gradient_of_their_channels() -> None:
    graph = residual_network()
    weights = {"b1.pw1": (1, 4, 6), "b1.dw": (0, 3, 11), "b2.pw2": (2, 3, 5, 20)}
    _check_network(graph, Plan(("b1.pw1",), weights))


def test_t08_changing_the_label_changes_the_update() -> None:
    graph = residual_network()
    compiled = compile_program(graph, resolve_scheme(graph, "full"))
    states = []
    for label in (0, 1):
        machine = Machine(compiled.program)
        for _ in range(3):
            machine.train(_sample(graph), label, 0.01)
        states.append(machine.state_bytes(compiled))
    assert states[0] != states[1]


def test_zero_point_at_a_rail_with_padding() -> None:
    b = NetworkBuilder((6, 6, 2), 21, "rail")
    b.tensors["x"] = type(b.tensors["x"])("x", (6, 6, 2), QParams(0.02, -128))
    y = b.conv("c1", b.conv("c0", "x", 4, 3, 1, 1, relu=True), 5, 3, 2, 1, relu=True)
    graph = b.head(b.global_pool("pool", y), 3)
    _check_network(graph, resolve_scheme(graph, "full"))
