"""Accounting agrees with the compiler, logs survive a kill, the page needs nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.networks import residual_network

from mcutrain.compile import compile_program
from mcutrain.errors import InputError
from mcutrain.image.pack import pack
from mcutrain.image.unpack import unpack
from mcutrain.ir.instructions import INSTRUCTIONS
from mcutrain.ir.macs import DW, DX, FORWARD, REST, macs, phase
from mcutrain.ir.program import CompiledProgram, Instr
from mcutrain.plan.scheme import resolve_scheme
from mcutrain.report.accounting import cost_of, cost_to_dict, trained_parameters
from mcutrain.report.html import describe_plan, program_of, render
from mcutrain.report.log import FORMAT, IMAGE, LOG, RUN, LogWriter, Run, read_log
from mcutrain.report.plots import kind_of, smoothed


def compiled(scheme: str = "last:3", bits: int = 8) -> CompiledProgram:
    graph = residual_network(8, 4)
    return compile_program(graph, resolve_scheme(graph, scheme, bits))


@pytest.mark.parametrize("scheme", ["head", "bias:4", "last:3", "full"])
@pytest.mark.parametrize("bits", [0, 4, 8])
def test_costs_add_up_to_what_the_compiler_says(scheme: str, bits: int) -> None:
    program = compiled(scheme, bits)
    cost = cost_of(program, 1234)
    assert sum(cost.state.values()) == program.state_bytes
    assert cost.pool == program.pool_bytes
    _, buffers = cost.peak
    alive = sum(b.nbytes for b in buffers)
    assert cost.bound - 4 * len(buffers) <= alive <= cost.bound <= cost.arena
    data = cost_to_dict(program, cost)
    assert data["image_bytes"] == 1234
    json.dumps(data)


def test_bytes_by_category_by_hand() -> None:
    program = compiled("last:1", 4)  # b2.pw2: 24 -> 12 channels, 1 x 1
    state = cost_of(program, 0).state
    assert state["weights"] == 24 * 12
    assert state["fractions"] == 24 * 12 // 2
    assert state["biases"] == 12 * 4
    assert state["classifier"] == (4 * 12 + 4) * 4
    assert trained_parameters(program) == [
        {"layer": "b2.pw2", "weights": 288, "biases": 12},
        {"layer": "classifier", "weights": 48, "biases": 4},
    ]


def test_forward_macs_by_hand() -> None:
    # 8x8x3: stem 3x3/2 to 4x4x8, then 16, dw 16, 8, 24, dw 24 /2 to 2x2, 12, classifier 4.
    maps = 16 * 8 * 27 + 16 * 8 * 16 + 16 * 16 * 9 + 16 * 16 * 8 + 16 * 8 * 24
    maps += 4 * 24 * 9 + 4 * 24 * 12 + 12 * 4
    assert cost_of(compiled(), 0).macs_forward == maps


def test_every_instruction_has_a_phase() -> None:
    for op in INSTRUCTIONS:
        assert phase(Instr(op, "layer", {})) in (FORWARD, DX, DW, REST)


def test_program_of_an_image_has_the_macs_of_the_one_that_was_packed() -> None:
    program = compiled("full")
    seen = program_of(unpack(pack(program)))
    assert [macs(seen, i) for i in seen.instrs] == [
        macs(program.program, i) for i in program.program.instrs
    ]
    assert sum(phase(i) == FORWARD for i in seen.instrs) == seen.forward


def test_log_stops_at_the_line_that_a_killed_process_left(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a":')
    assert read_log(path) == [{"a": 1}, {"a": 2}]
    assert read_log(tmp_path / "absent") == []


def test_log_goes_on_after_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": 3}\n{"a')
    log = LogWriter(path, 2)
    log.write({"a": 30})
    log.close()
    assert read_log(path) == [{"a": 1}, {"a": 2}, {"a": 30}]
    LogWriter(path, 0).close()
    assert read_log(path) == []


def test_folder_without_a_run_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    def why(folder: Path) -> str | None:
        with pytest.raises(InputError, match="not the folder of a run") as caught:
            Run.load(folder)
        assert caught.value.where == str(folder)
        return caught.value.why

    assert why(tmp_path / "absent") == "there is no such folder"
    assert why(tmp_path) == "there is no run.json in it"
    (tmp_path / "run.json").write_text("{")
    assert str(why(tmp_path)).startswith("run.json: Expecting property name")
    assert why(tmp_path / "run.json") == "it is a file"
    (tmp_path / "run.json").write_text("{}")
    assert why(tmp_path) == "there is no image.mcti in it"
    (tmp_path / "image.mcti").mkdir()
    assert why(tmp_path) == "image.mcti: Is a directory"


def test_smoothing_is_the_mean_of_the_last_values() -> None:
    got = smoothed(np.array([1.0, 2.0, 3.0, 4.0]), 2)
    np.testing.assert_allclose(got, [1.0, 1.5, 2.5, 3.5])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("b1.pw1:0", "activation"),
        ("b1.pw1:0.mask", "mask, pool index"),
        ("pool.index", "mask, pool index"),
        ("b1.pw1:0.error", "error"),
        ("b1.pw1:0.error.part0", "error"),
        ("b2.saved", "saved for a weight gradient"),
        ("logits.df", "classifier"),
    ],
)
def test_buffers_are_coloured_by_kind(name: str, kind: str) -> None:
    assert kind_of(name)[0] == kind


def test_plans_are_described_in_words() -> None:
    assert describe_plan({}) == "nothing"
    plan = {"biases": ["a"], "weights": {"b": [0, 1], "c": [5]}, "head": True, "fraction_bits": 4}
    expected = "biases of a; weights of b (2 channels), c (1 channel), "
    expected += "with 4 fraction bits; the classifier"
    assert describe_plan(plan) == expected


def make_run(folder: Path, steps: int) -> Run:
    image = pack(compiled())
    confusion = {"accuracy": 0.5, "correct": 2, "total": 4, "confusion": [[1] * 4] * 4}
    info: dict[str, Any] = {
        "format": FORMAT,
        "settings": {"data": "<npz>", "test": None, "rate": 0.1, "steps": steps},
        "device": {"name": "host & co", "board": "host", "build": "00"},
        "before": confusion,
        "after": confusion,
    }
    step = {"loss": 1.5, "rate": 0.1, "predicted": 1, "label": 1, "saturated": 0, "seconds": 0.01}
    step |= {"ticks_forward": 5, "ticks_backward": 6}
    (folder / RUN).write_text(json.dumps(info))
    (folder / IMAGE).write_bytes(image)
    (folder / LOG).write_text(
        "".join(json.dumps(step | {"number": n}) + "\n" for n in range(steps))
    )
    return Run.load(folder)


@pytest.mark.parametrize("steps", [0, 1, 300])
def test_page_is_self_contained_and_escaped(tmp_path: Path, steps: int) -> None:
    pytest.importorskip("matplotlib")
    page = render(make_run(tmp_path, steps))
    links = re.findall(r'(?:src|href|url)\s*=\s*["\'](?!#|data:)([^"\']+)', page)
    assert links == []
    assert "<script" not in page
    assert "&lt;npz&gt;" in page
    assert "<npz>" not in page
    assert "host &amp; co" in page
    assert page.count("<svg") == page.count("</svg>") == (7 if steps else 3)
    for layer in ("stem", "b2.pw2", "classifier"):
        assert f"<td>{layer}</td>" in page


def test_page_is_the_same_for_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = make_run(tmp_path, 20)
    assert render(run) == render(run)


def test_measured_instructions_appear_beside_the_layers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = make_run(tmp_path, 2)
    program = program_of(unpack(run.image))
    rows = [{"layer": i.layer, "phase": phase(i), "instructions": 77_777} for i in program.instrs]
    page = render(run, {"layers": rows})
    assert "77,777" in page
    assert "77,777" not in render(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", 2),
        ("settings", {}),
        ("settings", [1]),
        ("before", {"accuracy": 1}),
        ("after", {"accuracy": "x", "confusion": []}),
        ("after", {"accuracy": 0.5, "confusion": [[1, 2]]}),
        ("device", "board"),
        ("stats", 3),
    ],
)
def test_run_that_was_tampered_with_is_refused(tmp_path: Path, name: str, value: Any) -> None:
    make_run(tmp_path, 2)
    info = json.loads((tmp_path / RUN).read_text())
    (tmp_path / RUN).write_text(json.dumps(info | {name: value}))
    with pytest.raises(InputError, match="run cannot be read") as caught:
        Run.load(tmp_path)
    assert name in str(caught.value.why) or "settings" in str(caught.value.why)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["[]", "null", "{", "[" * 100_000])
def test_run_json_that_holds_something_else_is_refused(tmp_path: Path, text: str) -> None:
    make_run(tmp_path, 0)
    (tmp_path / RUN).write_text(text)
    with pytest.raises(InputError):
        Run.load(tmp_path)


def test_record_without_its_numbers_is_named_by_its_line(tmp_path: Path) -> None:
    make_run(tmp_path, 3)
    lines = (tmp_path / LOG).read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | {"loss": "x"})
    (tmp_path / LOG).write_text("\n".join(lines))
    with pytest.raises(InputError, match="log of the run is damaged") as caught:
        Run.load(tmp_path)
    assert str(caught.value.where).endswith("line 2")
    assert "loss" in str(caught.value.why)
