"""A PyTorch module into a float graph.

`torch.export` traces it (in eval mode; with a batch of 2, so that mixing samples is noticed), its
operators are translated one by one (`aten`), then batch norms and clamps fold into the layers
before them. The user's module paths become the layers' names: "blocks.0.conv"; an operator written
in a forward method is its module's path and the operator: "blocks.0.add"; the second call of a
module is "relu@1".
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcutrain.errors import InputError, ToolchainError, UnsupportedError
from mcutrain.frontends.aten import SUPPORTED, TRANSLATORS, Builder, Call
from mcutrain.frontends.aten_1d import TRANSLATORS_1D
from mcutrain.frontends.fold_clamp import fold_clamp
from mcutrain.frontends.fold_scale import fold_scale
from mcutrain.frontends.layout import Value, map_shape
from mcutrain.frontends.rewrite import prune
from mcutrain.ir.graph import Graph, Tensor
from mcutrain.ir.verify import verify

if TYPE_CHECKING:
    from torch import fx, nn
    from torch.export import ExportedProgram

BATCH = 2
_TRANSLATORS = {**TRANSLATORS, **TRANSLATORS_1D}
Shape = Sequence[int]


def from_torch(
    module: nn.Module,
    shapes: Shape | Sequence[Shape],
    *,
    name: str = "",
    classes: Sequence[str] = (),
) -> Graph:
    """Trace a module; it is not changed.

    A module that is called twice becomes two layers that share their initial weights.

    Args:
        module: ends in a linear layer (a softmax after it is dropped); makes logits (N, classes).
        shapes: the input's shape without the batch, (C, H, W), (C, L) or (features,); one for each
            input.
        name: the network's name; default: the class of the module.
        classes: names of the classes.

    Raises:
        UnsupportedError: a layer is not supported; names it and what is supported.
        InputError: the module or the shapes cannot be used at all.
        ToolchainError: PyTorch is not installed.
    """
    _check_module(module)
    inputs = _shapes(shapes)
    program = _export(module, inputs)
    builder, names, output = _translate(program)
    graph = Graph(
        name or type(module).__name__,
        names,
        output,
        builder.tensors,
        tuple(builder.nodes),
        tuple(classes),
    )
    # Dead code first: a reader that is dead must not keep a fold from happening. Scales before
    # clamps: a clamp in the producer would stand between the two.
    graph = fold_clamp(fold_scale(prune(graph), builder.scales))
    _check_end(graph)
    outputs = graph.tensors[graph.output].size
    if classes and len(classes) != outputs:
        raise InputError(
            "the data have another number of classes than the network",
            where=graph.head.name,
            why=f"{len(classes)} classes, {outputs} outputs",
            hint=f"end the module with nn.Linear(..., {len(classes)}), or choose classes of the "
            "data: ...?classes=0-4",
        )
    return verify(graph)


def input_shape(module: nn.Module, height: int, width: int, channels: int) -> tuple[int, ...]:
    """How a module takes samples (H, W, C), by its layers: (C, H, W), (C, L) or (features,)."""
    kinds = {type(m).__name__ for m in module.modules()} if hasattr(module, "modules") else set()
    if width == 1 and "Conv1d" in kinds and "Conv2d" not in kinds:
        return (channels, height)
    if (height, width) == (1, 1) and "Conv2d" not in kinds:
        return (channels,)
    return (channels, height, width)


def _check_module(module: Any) -> None:
    try:
        from torch import nn
    except ImportError:
        return  # said where it is needed
    if not isinstance(module, nn.Module):
        raise InputError(
            "this is no PyTorch module",
            where=f"a {type(module).__name__}",
            why="the function that is named must return a torch.nn.Module",
            hint="def build(): return MyNetwork()",
        )


def _shapes(shapes: Any) -> list[tuple[int, ...]]:
    several = [shapes] if all(isinstance(n, int) for n in shapes) else shapes
    result = [tuple(int(n) for n in s) for s in several]
    if not result or any(map_shape(s) is None for s in result):
        raise InputError(
            "an input shape must be (channels, height, width) or (features,)", where=str(shapes)
        )
    return result


@contextmanager
def _quiet_eval_mode(module: nn.Module) -> Iterator[None]:
    """Eval mode for a while, without PyTorch's own warnings and log: its errors say it all."""
    training = [m for m in module.modules() if m.training]
    module.eval()
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        for m in training:
            m.training = True


def _export(module: nn.Module, shapes: Sequence[tuple[int, ...]]) -> ExportedProgram:
    try:
        import torch
    except ImportError as error:
        raise ToolchainError(
            "PyTorch is not installed", hint="pip install 'mcutrain[torch]'"
        ) from error
    example = tuple(torch.zeros(BATCH, *shape) for shape in shapes)
    with _quiet_eval_mode(module), torch.no_grad():
        try:
            # An empty table decomposes nothing, but turns in-place operators into plain ones.
            program: ExportedProgram = torch.export.export(module, example)
            plain: ExportedProgram = program.run_decompositions({})
            return plain
        except Exception as error:  # whatever the user's forward method raises
            raise UnsupportedError(
                "PyTorch cannot trace this module",
                where=type(module).__name__,
                why=f"{type(error).__name__}: {str(error).strip().splitlines()[0]}",
                hint=f"check that it runs on inputs of shape {[list(e.shape) for e in example]} "
                "and branches on no tensor's values; ?size=HxW, ?gray=1 or ?shape=HxWxC behind the "
                "data's name make samples of another shape",
            ) from error


def _translate(program: ExportedProgram) -> tuple[Builder, tuple[str, ...], str]:
    """The builder with all nodes, the names of the inputs and of the output tensor."""
    builder, known = Builder(), _weights(program)
    inputs: list[str] = []
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name not in known:
            shape = map_shape(node.meta["val"].shape[1:])
            assert shape is not None  # checked by _shapes
            builder.tensors[node.name] = Tensor(node.name, shape)
            inputs.append(node.name)
            known[node.name] = Value(node.name, tuple(node.meta["val"].shape[1:]))
        elif node.op == "call_function":
            known[node.name] = _call(builder, node, known)
        elif node.op == "output":
            return builder, tuple(inputs), _output(node, known)
    raise UnsupportedError("the traced module has no output")


def _weights(program: ExportedProgram) -> dict[str, Any]:
    """Parameters, buffers and constants by the name of their placeholder."""
    tensors = {**program.constants, **program.state_dict}
    return {
        spec.arg.name: tensors[spec.target].detach().cpu().numpy()
        for spec in program.graph_signature.input_specs
        if spec.target is not None
    }


def _output(node: fx.Node, known: dict[str, Any]) -> str:
    results: Any = node.args[0]
    if not isinstance(results, tuple) or len(results) != 1:
        raise UnsupportedError("a network must return one tensor, its logits")
    value = known[results[0].name]
    if not isinstance(value, Value):
        raise UnsupportedError("the network's output does not depend on its input")
    return value.tensor


def _call(builder: Builder, node: fx.Node, known: dict[str, Any]) -> Any:
    target: Any = node.target
    if getattr(target, "__name__", "") == "getitem":
        # The one operator with several results is batch norm; the first is the one that counts.
        batch_norm: Any = node.args[0]
        return known[batch_norm.name]
    if not hasattr(target, "_schema"):
        raise UnsupportedError(f"'{target}' is not supported", where=_layer(node))
    operator = target._schema.name.partition("::")[2]
    call = Call(_layer(node), _arguments(node, known), _result_shape(node), _at_end(node))
    if operator not in _TRANSLATORS:
        raise call.refuse(f"operator '{operator}' is not supported", hint=f"supported: {SUPPORTED}")
    if not any(isinstance(v, Value) for v in _flat(call.args.values())):
        raise call.refuse("a layer works on weights alone", hint="compute them before the import")
    return _TRANSLATORS[operator](builder, call)


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def _arguments(node: fx.Node, known: dict[str, Any]) -> dict[str, Any]:
    """The operator's arguments by name, defaults too; nodes replaced by what they stand for."""

    def resolved(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [resolved(v) for v in value]
        return known[value.name] if hasattr(value, "meta") else value

    target: Any = node.target
    result = {}
    for i, argument in enumerate(target._schema.arguments):
        default = node.kwargs.get(argument.name, argument.default_value)
        result[argument.name] = resolved(node.args[i] if i < len(node.args) else default)
    # Overloads without an argument behave as its default.
    defaults = {"padding": 0, "alpha": 1, "dtype": None, "dim": None, "divisor_override": None}
    return {**defaults, **result}


def _result_shape(node: fx.Node) -> tuple[int, ...]:
    value = node.meta.get("val")
    first = value[0] if isinstance(value, list | tuple) else value
    shape = tuple(int(n) for n in getattr(first, "shape", ()))
    if not shape or shape[0] != BATCH:
        raise UnsupportedError(
            "a result mixes samples or is no tensor",
            where=_layer(node),
            why=f"for a batch of {BATCH} its shape is {shape}",
            hint="keep the first dimension: torch.flatten(x, 1), x.view(x.size(0), -1)",
        )
    return shape[1:]


def _layer(node: fx.Node) -> str:
    """The user's name: path of a module of torch.nn, else path of the module and operator."""
    target: Any = node.target
    schema = getattr(target, "_schema", None)
    operator = "call" if schema is None else schema.name.partition("::")[2]
    stack = node.meta.get("nn_module_stack") or {}
    path, kind = list(stack.values())[-1] if stack else ("", "")
    kind = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    if path and kind.startswith("torch.nn.modules."):
        return str(path)
    return f"{path}.{operator}" if path else operator


def _at_end(node: fx.Node) -> bool:
    return all(user.op == "output" for user in node.users)


def _check_end(graph: Graph) -> None:
    if not graph.nodes or graph.head.op != "linear" or "clamp" in graph.head.attrs:
        raise UnsupportedError(
            "a network must end in a linear layer, the classifier",
            where=graph.head.name if graph.nodes else graph.name,
            why="the classifier is trained in floating point and its logits go into the loss",
            hint="end the module with nn.Linear (a softmax after it is dropped)",
        )
    read = {name for node in graph.nodes for name in node.inputs}
    unused = [name for name in graph.inputs if name not in read]
    if unused:
        raise UnsupportedError("the network does not use an input", where=unused[0])
