"""PlatformIO builds the same firmware and runs the C tests, without its registry."""

from __future__ import annotations

import configparser
import itertools
import json
import select
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from tests.link_helpers import samples, small_image
from tests.pio import make_expected
from tests.traces import branches

from mcutrain.boards.build import build_firmware
from mcutrain.boards.platformio import build, environment, run_pio
from mcutrain.boards.table import ALL_BOARDS, BOARDS, REAL_BOARDS, Board
from mcutrain.engine import Engine
from mcutrain.link.session import Session

pytest.importorskip("platformio", reason="PlatformIO comes with `make setup-test`")
pytestmark = pytest.mark.qemu

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT / "build" / "pio"  # its objects are used again
SOME = [BOARDS["qemu:netduinoplus2"], REAL_BOARDS["nucleo_h743zi"]]


def test_every_board_has_an_environment_and_every_environment_a_board() -> None:
    config = configparser.RawConfigParser()
    config.read(ROOT / "platformio.ini")
    found = {name.removeprefix("env:") for name in config.sections() if name.startswith("env:")}
    assert found == {environment(board) for board in ALL_BOARDS.values()} | {"native"}
    for board in ALL_BOARDS.values():
        options = config[f"env:{environment(board)}"]
        if board.emulation is None:
            assert options["board"] == board.id
        else:
            assert options["custom_board"] == board.id
    # Users with a network get the real platforms: local ones are in the overlay alone.
    assert config["stm32"]["platform"] == "ststm32"
    assert config["host"]["platform"] == "native"


@pytest.mark.parametrize("row", REAL_BOARDS.values(), ids=lambda row: row.id)
def test_the_local_platform_agrees_with_the_board_table(row: Board) -> None:
    found = json.loads((ROOT / "pio" / "ststm32" / "boards" / f"{row.id}.json").read_text())
    core = {"-mcpu=" + found["build"]["cpu"]}
    assert core <= set(row.core_flags)
    assert int(found["build"]["f_cpu"].rstrip("L")) == row.clock_hz
    assert found["upload"]["maximum_ram_size"] == row.ram.size
    regions = [row.code, row.image, *(slot.region for slot in row.store or ())]
    regions.sort(key=lambda region: region.base)
    assert regions[0].base == 0x0800_0000
    for before, after in itertools.pairwise(regions):
        assert before.end <= after.base, "regions of flash overlap"
    assert regions[-1].end <= 0x0800_0000 + found["upload"]["maximum_size"]


def test_a_board_built_by_platformio_has_the_same_sizes() -> None:
    for name, sizes in build(SOME, SHARED).items():
        assert sizes == build_firmware(ALL_BOARDS[name]).sizes


@pytest.mark.slow
def test_all_boards_built_by_platformio_have_the_same_sizes() -> None:
    boards = list(ALL_BOARDS.values())
    found = build(boards, SHARED, native=True)
    assert found == {board.id: build_firmware(board).sizes for board in boards}


@pytest.mark.parametrize("name", ["native", "mps2-an386"])
def test_the_c_tests_pass(name: str, tmp_path: Path) -> None:
    log = tmp_path / "results.json"
    run_pio(["test", "-e", name, "--without-uploading", "--json-output-path", str(log)], SHARED)
    cases = json.loads(log.read_text())
    assert (cases["testcase_nums"], cases["failure_nums"], cases["error_nums"]) == (8, 0, 0)


def test_a_c_test_that_fails_is_told(tmp_path: Path) -> None:
    """The runner is no rubber stamp: the text of a failing program gives a failing case."""
    runner = tmp_path / "check.py"
    runner.write_text(
        "import runpy\n"
        f"runner = runpy.run_path({str(ROOT / 'tests/pio/test_custom_runner.py')!r})\n"
        "class Suite:\n"
        "    cases = []\n"
        "    def add_case(self, case): self.cases.append((case.name, case.status.name))\n"
        "    def on_finish(self): self.cases.append('end')\n"
        "class Runner(runner['CustomTestRunner']):\n"
        "    def __init__(self): self.test_suite = Suite()\n"
        "r = Runner()\n"
        "for line in ('a b: passed\\n', 'c: FAILED\\n', 'noise: x\\n', 'done\\n'):\n"
        "    r.on_testing_line_output(line)\n"
        "assert Suite.cases == [('a b', 'PASSED'), ('c', 'FAILED'), 'end'], Suite.cases\n"
    )

    subprocess.run([sys.executable, str(runner)], check=True, capture_output=True)


def test_the_c_tests_expect_what_the_engine_gives() -> None:
    """The committed image and figures belong together; the figures come from numpy."""
    image, text = make_expected.IMAGE.read_bytes(), make_expected.HEADER.read_text()
    engine = Engine(image)
    size = sum(b.count for b in (branches().program.values[n] for n in branches().program.inputs))
    for step in range(make_expected.STEPS):
        data = make_expected.sample(step, size)
        result = engine.train(data, step % 3, make_expected.LR, make_expected.LR_HEAD)
        assert f"{result.loss_bits:#010x}u" in text
    assert f"EXPECTED_STATE_CRC {zlib.crc32(engine.state):#010x}u" in text


class Pipe:
    """The native program as a transport."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def read(self, timeout_s: float) -> bytes:

        out = self._process.stdout
        assert out is not None
        return out.read(65536) if select.select([out], [], [], timeout_s)[0] else b""

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(5) == 0
        self._process.stdout.close()


@pytest.fixture
def native() -> Path:
    run_pio(["run", "-e", "native"], SHARED)
    return SHARED / "native" / "program"


def test_the_native_program_trains_like_the_engine(native: Path) -> None:
    image = small_image()
    engine = Engine(image)
    with Session(Pipe(native), "native") as session:
        assert session.info.board == "native"
        info = session.open(image).image
        assert info is not None
        for sample, label in samples(3, info.sample_bytes):
            step = session.train_step(sample, label, 0.01, 0.02)
            assert step.loss_bits == engine.train(sample, label, 0.01, 0.02).loss_bits
        assert session.read_state() == engine.state
        assert session.reboot().image_crc is None
