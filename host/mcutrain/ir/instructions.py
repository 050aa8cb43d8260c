"""The instruction table: one row an operation that the executor knows (docs/SPEC-image.md, section
4).

A row is data: code, slots and parameters (also the source of the C header), the numpy reference
that defines its result, the C kernel that computes it, the instructions that differentiate it, and
what it may do in place. `tests/unit/test_instructions.py` fails on a row with a missing cell.
"""

from __future__ import annotations

from dataclasses import dataclass

# A segment's order: the index of a member below MAX_MEMBERS, or a row of the network's input.
MAX_MEMBERS = 64
INPUT_ROW = 255

MAX_INPUTS = 4  # of a program


@dataclass(frozen=True)
class Slot:
    """One operand: its dtype (alternatives separated by |), and how it is used.

    `scratch` memory has any contents before and after.
    """

    name: str
    dtype: str
    optional: bool = False
    read: bool = True
    written: bool = False
    scratch: bool = False


@dataclass(frozen=True)
class InstructionSpec:
    """One row of the table.

    Attributes:
        code: op code in an image.
        slots: operands in the order of an image's instruction.
        params: parameter names in the order of an image's instruction.
        kernel: the public C function that computes it; "" where the executor itself acts.
        gradient: instructions that its differentiation emits, () where it is itself part of the
            backward pass.
        inplace: (read slot, written slot) pairs that may share a buffer when the read value ends
            here.
        stochastic: takes random bits, so it has an `rng` parameter.
    """

    name: str
    code: int
    slots: tuple[Slot, ...]
    params: tuple[str, ...]
    kernel: str
    gradient: tuple[str, ...] = ()
    inplace: tuple[tuple[str, str], ...] = ()

    @property
    def stochastic(self) -> bool:
        """Whether it draws random bits."""
        return "rng" in self.params

    def slot(self, name: str) -> Slot:
        """The slot of that name."""
        return next(s for s in self.slots if s.name == name)


def _in(name: str, dtype: str) -> Slot:
    return Slot(name, dtype)


def _opt(name: str, dtype: str) -> Slot:
    return Slot(name, dtype, optional=True)


def _out(name: str, dtype: str, optional: bool = False) -> Slot:
    return Slot(name, dtype, optional=optional, read=False, written=True)


def _inout(name: str, dtype: str, optional: bool = False) -> Slot:
    return Slot(name, dtype, optional=optional, written=True)


_WINDOW = ("kh", "kw", "sh", "sw", "pt", "pl")
_MASK_OUT = _out("mask", "bits", optional=True)
_MASK_IN = _opt("mask", "bits")
_SKIP = _opt("skip", "s8")
_SCRATCH = Slot("scratch", "u8", optional=True, read=False, written=True, scratch=True)
_E_Y = _in("e_y", "s8")
_E_X = _out("e_x", "s8")
_UPDATE = (_in("mant", "s32"), _in("exp", "s8"), _in("shift", "u8"))

_ROWS = (
    InstructionSpec(
        "conv2d",
        1,
        (
            _in("x", "s8"),
            _opt("w_trained", "s8"),
            _opt("w_frozen", "s8"),
            _in("bias", "s32"),
            _in("mult", "s32"),
            _in("shift", "u8"),
            _opt("perm", "u16"),
            _out("y", "s8"),
            _MASK_OUT,
            _SCRATCH,
        ),
        (*_WINDOW, "groups", "lo", "hi"),
        kernel="mct_conv2d_row_s8",
        gradient=("conv2d_dx", "conv2d_dw", "conv2d_db"),
    ),
    InstructionSpec(
        "add",
        2,
        (_in("a", "s8"), _in("b", "s8"), _out("y", "s8"), _MASK_OUT),
        ("mult_a", "mult_b", "n", "lo", "hi"),
        kernel="mct_add_s8",
        gradient=("error_sum",),
        inplace=(("a", "y"), ("b", "y")),
    ),
    InstructionSpec(
        "avgpool",
        3,
        (_in("x", "s8"), _out("y", "s8")),
        (*_WINDOW, "mult", "shift"),
        kernel="mct_avgpool_row_s8",
        gradient=("avgpool_dx",),
    ),
    InstructionSpec(
        "maxpool",
        4,
        (_in("x", "s8"), _out("y", "s8"), _out("index", "u8", optional=True)),
        _WINDOW,
        kernel="mct_maxpool_row_s8",
        gradient=("maxpool_dx",),
    ),
    InstructionSpec(
        "rescale",
        5,
        (_in("x", "s8"), _out("y", "s8"), _MASK_OUT),
        ("mult", "shift", "lo", "hi", "c0"),
        kernel="mct_rescale_s8",
        gradient=("error_sum",),
        inplace=(("x", "y"),),
    ),
    InstructionSpec(
        "gather",
        6,
        (_in("x", "s8"), _in("chan", "u16"), _out("y", "s8")),
        (),
        kernel="mct_gather_s8",
    ),
    InstructionSpec(
        "head",
        7,
        (_in("x", "s8"), _in("w", "f32"), _in("b", "f32"), _out("logits", "f32")),
        (),
        kernel="mct_head_f32",
        gradient=("loss", "head_dx", "head_dw"),
    ),
    InstructionSpec(
        "loss",
        8,
        (_in("logits", "f32"), _out("df", "f32")),
        (),
        kernel="mct_loss_f32",
        inplace=(("logits", "df"),),
    ),
    InstructionSpec(
        "head_dx",
        9,
        (_in("df", "f32"), _in("w", "f32"), _out("scratch", "f32"), _MASK_IN, _E_X),
        ("rng",),
        kernel="mct_head_dx_s8",
    ),
    InstructionSpec(
        "head_dw",
        10,
        (_in("x", "s8"), _in("df", "f32"), _inout("w", "f32"), _inout("b", "f32")),
        (),
        kernel="mct_head_dw_f32",
    ),
    InstructionSpec(
        "conv2d_dx",
        11,
        (
            _E_Y,
            _opt("w_trained", "s8"),
            _opt("w_frozen", "s8"),
            _in("r", "s16"),
            _in("mant", "s32"),
            _in("exp", "s8"),
            _opt("perm", "u16"),
            _SKIP,
            _MASK_IN,
            _E_X,
            _SCRATCH,
        ),
        (*_WINDOW, "groups", "f", "rng"),
        kernel="mct_conv2d_dx_s8",
        inplace=(("e_y", "e_x"), ("skip", "e_x")),
    ),
    InstructionSpec(
        "avgpool_dx",
        12,
        (_E_Y, _SKIP, _MASK_IN, _E_X),
        (*_WINDOW, "mant", "exp", "rng"),
        kernel="mct_avgpool_dx_s8",
        inplace=(("skip", "e_x"),),
    ),
    InstructionSpec(
        "maxpool_dx",
        13,
        (_E_Y, _in("index", "u8"), _SKIP, _MASK_IN, _E_X),
        (*_WINDOW, "rng"),
        kernel="mct_maxpool_dx_s8",
        inplace=(("skip", "e_x"),),
    ),
    InstructionSpec(
        "error_sum",
        14,
        (_in("e0", "s8"), _opt("e1", "s8"), _opt("e2", "s8"), _opt("e3", "s8"), _MASK_IN, _E_X),
        ("c0", "c1", "c2", "c3", "rng"),
        kernel="mct_error_sum_s8",
        inplace=(("e0", "e_x"), ("e1", "e_x"), ("e2", "e_x"), ("e3", "e_x")),
    ),
    InstructionSpec(
        "conv2d_dw",
        15,
        (
            _E_Y,
            _in("x", "s8"),
            _inout("w", "s8"),
            _inout("frac", "u8|nibbles", optional=True),
            _inout("bias", "s32"),
            *_UPDATE,
            _opt("chan", "u16"),
            _SCRATCH,
        ),
        (*_WINDOW, "groups", "bits", "reach", "rng"),
        kernel="mct_conv2d_dw_s8",
    ),
    InstructionSpec(
        "conv2d_db",
        16,
        (_E_Y, _inout("bias", "s32"), *_UPDATE),
        ("reach", "rng"),
        kernel="mct_conv2d_db_s8",
    ),
    InstructionSpec(
        "segment",
        17,
        (_in("order", "u8"), _out("rows", "u16")),
        ("members", "input_rows"),
        kernel="",
    ),
)

INSTRUCTIONS: dict[str, InstructionSpec] = {row.name: row for row in _ROWS}
