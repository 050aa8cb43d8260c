"""A bound of the stack, from the call graph of the linked firmware and gcc's frame sizes (T26).

Every call is in the disassembly but those through pointers: INDIRECT says whom each of them may
reach. A build of another pool size has the same code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from mcutrain.boards.build import Firmware, build_firmware
from mcutrain.boards.table import Board
from mcutrain.boards.toolchain import find_tool, run

INDIRECT = {
    "mct_app_receive": r"mct_app_(?!receive|init)\w+",
    "mct_run": r"mct_run_\w+|record",
    "mct_run_rows": r"mct_row_\w+",
    "mct_run_segment": r"record",
    "mct_segment_advance": r"mct_row_\w+|record",
    "mct_verify_instruction": r"mct_check_\w+",
    "mct_cobs_encode": r"to_uart",
    "mct_conv2d_depthwise_dsp": r"mct_plane_(sums|outputs)_\d_\d",
    "mct_conv2d_dx_depthwise_dsp": r"mct_plane_(sums_\d|parts)_\d",
}
# The store's calls into its block device; which of these are inlined is the compiler's choice.
STORE = ("mct_store_open", "mct_store_load", "mct_store_save", "crc_of_state", "read_record")
STORE += ("erase", "program", "write_record")
INDIRECT |= dict.fromkeys(STORE, r"store_(read|program|erase)")
LIBRARY = re.compile(r"mem(cpy|set|cmp)|strlen|__\w+")
LIBRARY_FRAME = 64  # of newlib's and libgcc's leaves, which come without frame sizes
EXCEPTION_FRAME = 104 + 4  # pushed by the core, with the registers of its FPU, and aligned
# Each row may interrupt those before it.
INTERRUPTS = (("usart_handler", "uart0_rx_handler"), ("mct_nmi_handler",))


@dataclass
class CallGraph:
    """Calls and frames in bytes by function; a name that occurs twice has the larger frame."""

    calls: dict[str, set[str]] = field(default_factory=dict)
    indirect: set[str] = field(default_factory=set)
    frames: dict[str, int] = field(default_factory=dict)

    def depth(self, function: str, above: tuple[str, ...] = ()) -> int:
        """Bytes of the deepest chain of calls from a function on."""
        assert function not in above, f"recursion: {' -> '.join((*above, function))}"
        if function not in self._depths:
            callees = self.calls[function] | self._reached(function)
            below = [self.depth(c, (*above, function)) for c in callees]
            self._depths[function] = self.frame(function) + max(below, default=0)
        return self._depths[function]

    _depths: dict[str, int] = field(default_factory=dict)

    def frame(self, function: str) -> int:
        name = re.sub(r"\.\d+$", "", function)
        if name not in self.frames:
            assert LIBRARY.fullmatch(name), f"no frame size of {function}"
            return LIBRARY_FRAME
        return self.frames[name]

    def _reached(self, function: str) -> set[str]:
        if function not in self.indirect:
            return set()
        found = {name for name in self.calls if re.fullmatch(INDIRECT[function], name)}
        assert found, f"{function} calls through a pointer"
        return found


def call_graph(firmware: Firmware) -> CallGraph:
    graph = CallGraph()
    for place, size in firmware.frames.items():
        name = place.rpartition(":")[2]
        graph.frames[name] = max(size, graph.frames.get(name, 0))
    objdump = str(find_tool("arm-none-eabi-objdump"))
    listing = run([objdump, "-d", "--no-show-raw-insn", str(firmware.elf)], 60.0).stdout
    function = ""
    for line in listing.splitlines():
        if header := re.match(r"[0-9a-f]+ <(.+)>:", line):
            function = header[1]
            graph.calls.setdefault(function, set())
        elif branch := re.match(r"\s*[0-9a-f]+:\tc?b\S*\t.*<([^>+]+)>", line):
            graph.calls[function] |= {branch[1]} - {function}
        elif re.match(r"\s*[0-9a-f]+:\tblx?\s+(r\d+|sl|fp|ip|lr)\b", line):
            graph.indirect.add(function)
    return graph


@cache
def stack_bound(board: Board) -> int:
    """Deepest chain of the program, and of an interrupt on top of it."""
    graph = call_graph(build_firmware(board))
    bound = graph.depth("mct_reset_handler")
    for names in INTERRUPTS:
        depths = [EXCEPTION_FRAME + graph.depth(name) for name in names if name in graph.calls]
        bound += max(depths, default=0)
    return bound
