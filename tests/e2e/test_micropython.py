"""The native MicroPython module on this machine: the host's bytes, files, errors, the heap."""

from __future__ import annotations

import functools
import http.server
import platform
import struct
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.image_cases import samples
from tests.micropython import native_module, run_on_host
from tests.micropython_cases import TRAIN, case
from tests.traces import PROGRAMS, program

from mcutrain.engine import Engine
from mcutrain.image import format as fmt
from mcutrain.image.pack import pack
from mcutrain.image.unpack import unpack

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the module for this machine is one for 64-bit x86 under Linux",
)

SETUP = """
import sys
sys.path.insert(0, {module!r})
import mcutrain
def raised(function, *args):
    try:
        function(*args)
    except Exception as error:
        return "{{}}: {{}}".format(type(error).__name__, error)
    return "nothing raised"
image = open("image.mcti", "rb").read()
samples = open("samples.bin", "rb").read()
steps = {steps!r}
"""


def run(
    name: str, folder: Path, script: str, heap: str = "8M", module: Path | None = None
) -> list[str]:
    """Lines that a script prints, beside a case's files and behind SETUP and TRAIN."""
    (folder / "image.mcti").write_bytes(case(name).image)
    (folder / "samples.bin").write_bytes(case(name).samples)
    module = module or native_module("x64")
    setup = SETUP.format(module=str(module.parent), steps=case(name).steps)
    return run_on_host(setup + TRAIN + script, folder, heap).splitlines()


@pytest.mark.parametrize("name", PROGRAMS)
def test_twenty_steps_are_those_of_the_host(name: str, tmp_path: Path) -> None:
    """From a file and from a buffer, samples at once and in pieces; both networks side by side."""
    script = """
net, other = mcutrain.Network("image.mcti"), mcutrain.Network(image)
print(train(net, samples, steps))
size = net.stats()["sample_bytes"]
for i, step in enumerate(steps):
    for at in range(i * size, (i + 1) * size, 37):
        other.write(memoryview(samples)[at : min(at + 37, (i + 1) * size)])
    other.train(None, *step)
print(binascii.hexlify(other.state()).decode())
"""
    lines = run(name, tmp_path, script)
    assert eval(lines[0]) == case(name).found
    assert lines[1] == case(name).found[1]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def test_mip_installs_the_module(tmp_path: Path) -> None:
    """From the build folder as it is, over HTTP."""
    handler = functools.partial(_Quiet, directory=str(native_module("x64").parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/package.json"
        script = f"import mip, sys\nmip.install({url!r}, target='lib')\n"
        script += "sys.path.insert(0, 'lib')\nimport mcutrain\nprint(mcutrain.Network)\n"
        assert run_on_host(script, tmp_path).endswith("<class 'Network'>\n")
        server.shutdown()


def test_a_module_for_one_image_is_smaller_and_refuses_others(tmp_path: Path) -> None:
    image, other = tmp_path / "mlp.mcti", tmp_path / "branches.mcti"
    image.write_bytes(case("mlp").image)
    other.write_bytes(case("branches").image)
    module = native_module("x64", image)
    assert module.stat().st_size < 0.9 * native_module("x64").stat().st_size
    script = """
net = mcutrain.Network("mlp.mcti")
print(train(net, samples, steps))
print(raised(mcutrain.Network, "branches.mcti"))
"""
    lines = run("mlp", tmp_path, script, module=module)
    assert eval(lines[0]) == case("mlp").found
    assert lines[1].startswith("ValueError: an instruction is of an unknown kind (-27), layer ")


def test_predictions_and_figures_are_those_of_the_host(tmp_path: Path) -> None:
    script = """
net = mcutrain.Network(image)
size = net.stats()["sample_bytes"]
for i in range(8):
    best = net.predict(samples[i * size : (i + 1) * size])
    print(best, [struct.unpack("<I", struct.pack("<f", v))[0] for v in net.logits()])
net.reset(77)
print(sorted(net.stats().items()))
"""
    lines = run("branches", tmp_path, script)
    compiled = program("branches")
    engine = Engine(pack(compiled))
    for line, (sample, _) in zip(lines, samples(compiled, 8), strict=False):
        logits = engine.forward(sample)
        assert line == f"{logits.argmax()} {[int(v) for v in logits.view('u4')]}"
    header = engine.image.header
    stats = dict(eval(lines[-1]))
    names = ("image_bytes", "state_bytes", "arena_bytes", "classes", "instructions")
    assert {k: stats[k] for k in names} == {k: header[k] for k in names}
    assert (stats["seed"], stats["steps"], stats["evals"]) == (77, 0, 8)
    assert [row[:3] + row[4:] for row in stats["inputs"]] == [(7, 6, 2, -3), (7, 6, 3, 5)]
    assert struct.pack("<f", stats["inputs"][1][3]) == struct.pack("<f", 0.03)


def test_a_saved_state_goes_on_as_if_never_interrupted(tmp_path: Path) -> None:
    script = """
net = mcutrain.Network(image)
size = net.stats()["sample_bytes"]
train(net, samples, steps[:9])
net.save("saved")
net = mcutrain.Network(image)
net.restore("saved")
print(train(net, samples[9 * size :], steps[9:])[1])
other = mcutrain.Network(image)
other.set_state(net.state())
print(other.state() == net.state(), other.stats()["steps"])
"""
    lines = run("streamed-residual", tmp_path, script)
    assert lines == [case("streamed-residual").found[1], "True 20"]


def test_a_damaged_saved_state_is_refused_and_changes_nothing_it_should_not(tmp_path: Path) -> None:
    script = """
net = mcutrain.Network(image)
first = net.state()
train(net, samples, steps[:2])
net.save("saved")
good = open("saved", "rb").read()
for at, bit in ((0, 1), (5, 1), (8, 1), (20, 1), (13, 1), (len(good) - 1, 128)):
    bad = bytearray(good)
    bad[at] ^= bit
    open("bad", "wb").write(bad)
    before = net.state()
    print(raised(net.restore, "bad"), net.state() == (before if at < 12 else first))
    net.restore("saved")
for n in (0, 15, 16, len(good) - 1):
    open("bad", "wb").write(good[:n])
    print(raised(net.restore, "bad"))
print(raised(net.restore, "absent"))
print(raised(net.save, "no/folder"))
print(raised(net.set_state, b"123"), raised(net.set_state, b"\\x80" * len(first)))
print(net.state() == first)
"""
    lines = run("mlp", tmp_path, script)
    wrong = "ValueError: the saved state is one of another image True"
    damaged = "ValueError: the saved state is damaged: its CRC does not match"
    kind = "ValueError: this is not a file with a saved state"
    assert lines[:6] == [f"{kind} True", wrong, wrong, *[f"{damaged} True"] * 3]
    assert lines[6:10] == [kind, kind, damaged, damaged]
    assert lines[10:12] == ["OSError: [Errno 2] ENOENT"] * 2
    assert lines[12].startswith("ValueError: the state has 3 bytes, this image's has ")
    assert 'ValueError: a weight is -128 (-33), layer "fc' in lines[12]
    assert lines[13] == "True"


def test_arguments_that_cannot_be_are_refused(tmp_path: Path) -> None:
    script = """
net = mcutrain.Network(image)
before = net.state()
one = samples[: net.stats()["sample_bytes"]]
for args in ((one[1:], 0, 0.1), (one, 5, 0.1), (one, -1, 0.1), (one, 1 << 40, 0.1),
             (one, 0, -0.5), (one, 0, 0.1, float("nan")), (None, 0, 0.1), (3, 0, 0.1),
             (one, "0", 0.1), (one, 0)):
    print(raised(net.train, *args))
net.write(one[:5])
print(raised(net.predict, None), raised(net.write, one + b"x"), raised(net.logits))
print(net.state() == before, net.predict(one) in range(5), len(net.logits()))
"""
    lines = run("mlp", tmp_path, script)
    label = "ValueError: the label is not one of the image's classes (-12)"
    rate = "ValueError: a learning rate or loss limit is negative or not finite (-13)"
    sample = "ValueError: the sample is not complete, or too long (-15)"
    assert lines[0] == "ValueError: the sample has 47 bytes, this image's has 48"
    assert lines[1:7] == [label] * 3 + [rate] * 2 + [sample]
    assert [line.split(":")[0] for line in lines[7:10]] == ["TypeError"] * 3
    logits = "RuntimeError: no logits: call predict() first"
    assert lines[10] == f"{sample} {sample} {logits}"
    assert lines[11] == "True True 5"


def _with_crc(image: bytearray) -> bytes:
    """The image with the CRC in its header made right."""
    image[12:16] = zlib.crc32(image[fmt.CRC_START :]).to_bytes(4, "little")
    return bytes(image)


def test_a_refused_image_is_named_with_its_layer(tmp_path: Path) -> None:
    good = case("branches").image
    cut, damaged, wrong = good[:-1], bytearray(good), bytearray(good)
    damaged[200] ^= 1
    header = unpack(good).header
    index = next(i for i, p in enumerate(unpack(good).program) if p.layer == "grouped")
    record = header["program_offset"] + index * fmt.INSTRUCTION.size
    wrong[record + fmt.INSTRUCTION.offset("params")] = 0  # the kernel's height
    files = {"cut": cut, "damaged": bytes(damaged), "wrong": _with_crc(wrong), "none": b""}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    script = """
for name in ("cut", "damaged", "wrong", "none", "absent"):
    print(raised(mcutrain.Network, name))
print(raised(mcutrain.Network, memoryview(b"x" + image)[1:]), raised(mcutrain.Network, 5))
"""
    lines = run("branches", tmp_path, script)
    size = len(good)
    assert lines[0].startswith(f"ValueError: the image was cut or extended (-20), place {size - 1}")
    assert lines[1] == "ValueError: the image is damaged: its CRC does not match (-23)"
    assert lines[2].startswith(
        f'ValueError: a parameter is out of range (-31), layer "grouped", instruction {index}'
    )
    assert lines[3].startswith("ValueError: the image was cut or extended (-20)")
    assert lines[4] == "OSError: [Errno 2] ENOENT"
    assert "is not 4-byte aligned (-10)" in lines[5]
    assert "TypeError" in lines[5]


def test_divergence_is_named_with_its_layer(tmp_path: Path) -> None:
    """The classifier's weights at the end of the float range, as divergence leaves them."""
    compiled = program("mlp")
    engine = Engine(pack(compiled))
    head = next(t for t in engine.image.tensors if t.dtype == "f32" and t.space == "state")
    start, n = head.offset, int(np.prod(head.shape))
    script = f"""
net = mcutrain.Network(image)
state = bytearray(net.state())
state[{start} : {start + 4 * n}] = struct.pack("<f", 3e38) * {n}
net.set_state(state)
one = samples[: net.stats()["sample_bytes"]]
print(raised(net.train, one, 0, 0.1))
print(net.state() == bytes(state))
"""
    lines = run("mlp", tmp_path, script)
    assert lines[0].startswith("RuntimeError: training diverged")
    assert ", layer " in lines[0]
    assert lines[1] == "True"


def test_the_garbage_collector_keeps_what_a_network_needs(tmp_path: Path) -> None:
    """A small heap, collected and filled with other bytes all the time."""
    script = """
def other():
    return [bytearray(b"\\xa5" * 900) for _ in range(40)]
net = mcutrain.Network("image.mcti")
size = net.stats()["sample_bytes"]
for i, step in enumerate(steps):
    net.train(samples[i * size : (i + 1) * size], *step)
    other()
    gc.collect()
    other()
print(binascii.hexlify(net.state()).decode())
for _ in range(200):  # what is not needed any more is freed
    mcutrain.Network("image.mcti").predict(samples[:size])
print("done")
"""
    lines = run("t45-deep", tmp_path, script, "400K")
    assert lines == [case("t45-deep").found[1], "done"]


def test_too_little_memory_and_a_moved_image_are_errors(tmp_path: Path) -> None:
    script = """
full = []
try:
    while True:
        full.append(bytearray(2000))
except MemoryError:
    pass
full.pop()
print(raised(mcutrain.Network, image))
full.clear()
moving = bytearray(image)
net = mcutrain.Network(moving)
moving.extend(b"x")
print(raised(net.predict, samples[:108]))
"""
    lines = run("t45-deep", tmp_path, script, "1M")
    assert lines[0] == "MemoryError: no 13207 bytes of heap in one piece for state and arena"
    assert lines[1] == "RuntimeError: the image's buffer was resized after it was opened"
