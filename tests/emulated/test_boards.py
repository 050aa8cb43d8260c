"""The hardware layer on every emulated board, through the self-test app in fw_selftest/."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mcutrain.boards.build import Firmware, build_firmware
from mcutrain.boards.emulate import EmulatedBoard, Preload, image_preload
from mcutrain.boards.table import BOARDS, Board, Region, get_board
from mcutrain.boards.toolchain import GCC, QEMU, find_tool, tool_version
from mcutrain.errors import FitError, InputError, LinkError, ToolchainError, UsageError

pytestmark = [
    pytest.mark.qemu,
    pytest.mark.skipif(
        shutil.which(GCC) is None or shutil.which(QEMU) is None,
        reason=f"needs {GCC} and {QEMU}",
    ),
]

HERE = Path(__file__).parent
APP = HERE / "fw_selftest"
NO_KERNELS = HERE / "no_kernels"  # does not exist: the self-test calls no kernel
NETDUINO = BOARDS["qemu:netduinoplus2"]
AN386 = BOARDS["qemu:mps2-an386"]
UNMAPPED = {"qemu:mps3-an547": 0x1800_0000}  # has memory where there is none elsewhere:
UNMAPPED_ELSEWHERE = 0x9000_0000
STKERR_OR_MSTKERR = 1 << 12 | 1 << 4
RING_BYTES = 2048
QEMU_VERSION = 0 if shutil.which(QEMU) is None else int(tool_version(QEMU).split()[3].split(".")[0])


def build(board: Board, **options: int) -> Firmware:
    return build_firmware(board, app=APP, kernels=NO_KERNELS, pool_bytes=options.get("pool", 0))


def read_exactly(port: EmulatedBoard, n: int, timeout_s: float = 20.0) -> bytes:
    data = b""
    deadline = time.monotonic() + timeout_s
    while len(data) < n and time.monotonic() < deadline:
        data += port.read(0.5)
    assert len(data) == n, f"{len(data)} of {n} bytes within {timeout_s} s: {data[:64]!r}"
    return data


def send(port: EmulatedBoard, command: str, argument: int = 0) -> None:
    port.write(command.encode() + struct.pack("<I", argument))


@contextlib.contextmanager
def boot(board: Board, elf: Path, preloads: Sequence[Preload] = ()) -> Iterator[EmulatedBoard]:
    with EmulatedBoard(board, elf, preloads) as port:
        await_boot(port)
        yield port


def await_boot(port: EmulatedBoard) -> None:
    assert read_exactly(port, 1) == b"!"


def ask(port: EmulatedBoard, command: str, argument: int = 0, *, words: int) -> tuple[int, ...]:
    """One command of the self-test app and its answer."""
    send(port, command, argument)
    answer = read_exactly(port, 1 + 4 * words)
    assert answer[0] == words
    return struct.unpack(f"<{words}I", answer[1:])


@pytest.fixture(params=list(BOARDS.values()), ids=lambda board: board.id)
def port(request: pytest.FixtureRequest) -> Iterator[EmulatedBoard]:
    with boot(request.param, build(request.param).elf) as booted:
        yield booted


def test_t56_echo_of_all_byte_values_and_zero_runs(port: EmulatedBoard) -> None:
    every_value = bytes(range(256)) * 32
    zeros = bytes(4096)
    noise = random.Random(56).randbytes(8192)
    data = every_value + zeros + noise
    send(port, "E", len(data))
    port.write(data)
    assert read_exactly(port, len(data)) == data
    assert ask(port, "H", words=6)[4] == 0, "receive overruns"


def test_full_ring_holds_the_sender_back_and_loses_nothing(port: EmulatedBoard) -> None:
    count = RING_BYTES  # five bytes each: more than twice the ring
    send(port, "S", 1_000_000)
    port.write(b"x\0\0\0\0" * count)
    answers = read_exactly(port, 25 + count)
    assert answers[0] == 6
    overruns, stalls = struct.unpack("<II", answers[17:25])
    assert (overruns, stalls) == (0, 1)
    assert answers[25:] == bytes(count), "one empty answer an unknown command"
    assert ask(port, "H", words=6)[4] == 0


def test_counter_is_proportional_and_repeatable(port: EmulatedBoard) -> None:
    def instructions(turns: int) -> float:
        ticks, kind, num, den = ask(port, "C", turns, words=4)
        emulation = port.board.emulation
        assert emulation is not None
        assert (kind, num, den) == (0, emulation.counter_num, emulation.counter_den)
        return ticks * num / den

    assert port.board.emulation is not None
    tick = port.board.emulation.counter_num / port.board.emulation.counter_den
    first, second = instructions(100_000), instructions(100_000)
    assert abs(first - second) <= (0 if tick == 1 else tick)
    # The loop is 4 instructions a turn, the last branch included; the difference drops the rest.
    assert abs(instructions(300_000) - first - 800_000) <= (0 if tick == 1 else 2 * tick)


def test_two_boards_with_the_same_core_count_alike() -> None:
    counts = []
    for board in (NETDUINO, AN386):
        with boot(board, build(board).elf) as port:
            ticks, _, num, den = ask(port, "C", 100_000, words=4)
            counts.append(ticks * num / den)
    # The two differ in how they read their counter (a few instructions) and by one tick.
    assert abs(counts[0] - counts[1]) <= 4, counts
    assert counts[0] == pytest.approx(400_000, abs=20)


def test_counting_twice_over_fresh_boots_gives_the_same_number() -> None:
    counts = []
    for _ in range(2):
        with boot(NETDUINO, build(NETDUINO).elf) as port:
            counts.append(ask(port, "C", 12_345, words=4)[0])
    assert counts[0] == counts[1]


def test_memory_report_agrees_with_the_linker(port: EmulatedBoard) -> None:
    board = port.board
    sizes = build(board).sizes
    report = ask(port, "M", 10, words=8)
    stack_size, stack_used, changed, watched, pool, pool_size, image, image_size = report
    assert stack_size == sizes.stack == board.stack_bytes
    assert 10 * 64 < stack_used < stack_size
    assert changed == 0
    assert pool_size == sizes.pool
    assert pool % 16 == 0
    assert pool + pool_size == board.ram.end
    assert sizes.ram_bytes == board.ram.size, "the pool takes all that is left"
    assert (image, image_size) == (board.image.base, board.image.size)
    if board is NETDUINO and QEMU_VERSION < 8:
        assert watched == 64 * 1024
    # Deeper by 20 levels: the mark moves by at least their arrays, and never back.
    deeper = ask(port, "M", 30, words=8)
    assert deeper[1] >= stack_used + 20 * 64
    assert ask(port, "M", 1, words=8)[1] == deeper[1]
    assert ask(port, "M", 1, words=8)[2] == 0, "filling the pool touched the guard"


@pytest.mark.skipif(QEMU_VERSION >= 8, reason="this QEMU has no memory beyond the chip's")
def test_guard_sees_single_bytes_beyond_the_chips_memory() -> None:
    with boot(NETDUINO, build(NETDUINO).elf) as port:
        assert ask(port, "M", words=8)[2:4] == (0, 65536)
        for address in (NETDUINO.ram.end, NETDUINO.ram.end + 777, NETDUINO.guard.end - 1):
            send(port, "P", address)
        assert ask(port, "M", words=8)[2] == 3


def test_guard_where_the_emulator_has_nothing_is_probed_not_trusted() -> None:
    assert NETDUINO.emulation is not None
    # Claims memory at an address where this QEMU has none, as the table does on newer ones.
    beyond = Region(NETDUINO.ram.base, 192 * 1024)
    emulation = replace(NETDUINO.emulation, ram_size=256 * 1024)
    board = replace(NETDUINO, ram=beyond, emulation=emulation)
    if QEMU_VERSION >= 8:
        board = NETDUINO
    with boot(board, build(board).elf) as port:
        assert ask(port, "M", words=8)[2:4] == (0, 0)
        assert ask(port, "H", words=6)[:4] == (0, 0, 0, 0), "the probe is no fault"


def test_cut_ram_is_kept_and_guarded() -> None:
    board = AN386.with_ram(192 * 1024)
    firmware = build(board)
    assert firmware.sizes.ram_bytes == 192 * 1024
    with boot(board, firmware.elf) as port:
        report = ask(port, "M", words=8)
        assert report[2:4] == (0, 65536)
        assert report[4] + report[5] == board.ram.base + 192 * 1024


def test_pool_of_a_given_size() -> None:
    firmware = build(NETDUINO, pool=40_000)
    assert firmware.sizes.pool == 40_000
    with boot(NETDUINO, firmware.elf) as port:
        assert ask(port, "M", words=8)[5] == 40_000


def test_fault_is_reported_after_the_reset(port: EmulatedBoard) -> None:
    assert ask(port, "H", words=6)[:4] == (0, 0, 0, 0)
    unmapped = UNMAPPED.get(port.board.id, UNMAPPED_ELSEWHERE)
    send(port, "F", unmapped)
    await_boot(port)
    pc, _, cfsr, address = ask(port, "H", words=6)[:4]
    assert port.board.code.base < pc < port.board.code.base + build(port.board).sizes.text
    assert cfsr == 0x8200  # precise bus fault with a valid address
    assert address == unmapped
    send(port, "R")
    await_boot(port)
    assert ask(port, "H", words=6)[:4] == (0, 0, 0, 0), "an ordered reset is no fault"


def test_t26_stack_overflow_is_caught_and_reported(port: EmulatedBoard) -> None:
    send(port, "O", 1000)
    await_boot(port)
    _, _, cfsr, address = ask(port, "H", words=6)[:4]
    assert cfsr & STKERR_OR_MSTKERR
    assert port.board.ram.base - 32 * 1024 <= address < port.board.ram.base
    assert ask(port, "M", words=8)[2] == 0


def test_image_partition_is_filled_before_boot(tmp_path: Path) -> None:
    data = random.Random(5).randbytes(5000)
    path = tmp_path / "an image, with a comma.bin"
    path.write_bytes(data)
    expected = 0
    for byte in data:
        expected = (expected * 31 + byte) % 2**32
    for board in BOARDS.values():
        with boot(board, build(board).elf, [image_preload(board, path)]) as port:
            assert ask(port, "I", len(data), words=1) == (expected,), board.id


def test_image_partition_is_written_only_where_it_can_be(port: EmulatedBoard) -> None:
    failed = 0xFFFF_FFFF
    status, same, beyond_the_end = ask(port, "W", 4096, words=3)
    assert (status, same) == ((0, 1) if port.board.image_writable else (failed, 0))
    assert beyond_the_end == failed


def test_image_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    path.write_bytes(bytes(768 * 1024))
    assert image_preload(NETDUINO, path) == Preload(path, 0x0804_0000)
    with pytest.raises(FitError, match="does not fit into the image partition"):
        image_preload(NETDUINO, path, offset=1)
    with pytest.raises(InputError, match="no such file"):
        image_preload(NETDUINO, tmp_path / "absent.bin")


def test_boards_run_side_by_side() -> None:
    elf = build(NETDUINO).elf
    with boot(NETDUINO, elf) as a, boot(NETDUINO, elf) as b:
        assert a.pid != b.pid
        assert ask(a, "C", 10, words=4) == ask(b, "C", 10, words=4)


def running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_emulator_ends_with_the_context() -> None:
    with boot(NETDUINO, build(NETDUINO).elf) as port:
        assert running(port.pid)
    assert not running(port.pid)
    port.close()


def test_emulator_that_ends_is_an_error_with_its_own_words(tmp_path: Path) -> None:
    with (
        EmulatedBoard(NETDUINO, tmp_path / "absent.elf") as port,
        pytest.raises(LinkError, match=r"exit code 1; it said: .*absent\.elf"),
    ):
        read_exactly(port, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_emulator_does_not_outlive_a_killed_python() -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from mcutrain.boards.emulate import EmulatedBoard\n"
        "from mcutrain.boards.table import get_board\n"
        "port = EmulatedBoard(get_board('qemu:netduinoplus2'), Path(sys.argv[1]))\n"
        "while not port.read(1): pass\n"
        "print(port.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(build(NETDUINO).elf)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert running(pid)
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(pid)


def test_build_is_cached_and_keyed_by_what_goes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCUTRAIN_BUILD_DIR", str(tmp_path))
    app = tmp_path / "app"
    shutil.copytree(APP, app)
    first = build_firmware(NETDUINO, app=app, kernels=NO_KERNELS)
    stamp = first.elf.stat().st_mtime_ns
    again = build_firmware(NETDUINO, app=app, kernels=NO_KERNELS)
    assert (again, again.elf.stat().st_mtime_ns) == (first, stamp)
    assert first.map.is_file()
    defined = build_firmware(
        NETDUINO, app=app, kernels=NO_KERNELS, defines={"MCT_RX_RING_BYTES": "4096u"}
    )
    assert defined.build_id != first.build_id
    assert defined.sizes.bss == first.sizes.bss + 2048
    (app / "main.c").write_text((app / "main.c").read_text() + "\n/* changed */\n")
    changed = build_firmware(NETDUINO, app=app, kernels=NO_KERNELS)
    assert changed.build_id not in (first.build_id, defined.build_id)
    assert changed.sizes == first.sizes


def test_build_id_reaches_the_source_that_asks_for_it(tmp_path: Path) -> None:
    source = "int main(void);\nvolatile unsigned long long id = MCT_BUILD_ID;\n"
    (tmp_path / "main.c").write_text(source + "int main(void)\n{\n    return id != 0;\n}\n")
    firmware = build_firmware(NETDUINO, app=tmp_path, kernels=NO_KERNELS)
    assert len(firmware.build_id) == 16
    assert int(firmware.build_id, 16).to_bytes(8, "little") in firmware.elf.read_bytes()


def test_frames_name_every_function_with_its_stack() -> None:
    frames = build(NETDUINO).frames
    digs = [size for name, size in frames.items() if "fw_selftest/main.c:dig" in name]
    assert digs
    assert max(digs) >= 64
    assert "firmware/hal/stm32/stm32.c:usart_handler" in frames


def test_build_errors_say_what_and_where(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="firmware sources are missing"):
        build_firmware(NETDUINO, app=tmp_path, kernels=NO_KERNELS)
    source = tmp_path / "main.c"
    source.write_text("int main(void)\n{\n    int unused;\n    return 0;\n}\n")
    with pytest.raises(ToolchainError, match=r"main\.c[\s\S]*unused variable"):
        build_firmware(NETDUINO, app=tmp_path, kernels=NO_KERNELS)
    with pytest.raises(FitError, match="RAM' overflowed by"):
        build(NETDUINO, pool=128 * 1024)


def test_unknown_board_and_impossible_cut_are_usage_errors() -> None:
    with pytest.raises(UsageError, match=r"qemu:netduinoplus2, qemu:mps2-an385"):
        get_board("qemu:nothing")
    for size in (4 * 1024 * 1024 + 16, 4096, 100_001):
        with pytest.raises(UsageError, match="cannot cut the SRAM"):
            AN386.with_ram(size)


def test_t61_missing_tool_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"qemu-system-arm is not installed[\s\S]*apt-get"):
        find_tool(QEMU)
    with pytest.raises(ToolchainError, match="is not installed"):
        EmulatedBoard(NETDUINO, tmp_path / "firmware.elf")
