"""The one description of the bytes on the link: frames, messages, fields, codes.

`python -m mcutrain.link.generate_header` writes the C header and the tables of docs/SPEC-wire.md
from it. Everything is little-endian and packed.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from mcutrain.link.layout import Layout as Layout
from mcutrain.link.layout import Message as Message
from mcutrain.link.layout import Value as Value
from mcutrain.link.layout import layout

VERSION = 1
HEADER = struct.Struct("<BBHHH")  # version, type, session, sequence, payload bytes
CRC_BYTES = 4
MAX_PAYLOAD = 512
MAX_FRAME = HEADER.size + MAX_PAYLOAD + CRC_BYTES
WINDOW = 3  # DATA frames in flight
DATA_CHUNK = 504  # bytes in a DATA frame, so that every offset is a multiple of 8
MIN_CHUNK = 32  # the same on a line that damages larger ones
RESPONSE = 0x80  # added to a request's type
ERROR = 0xC0
NAK = 0xC1

HEADER_FIELDS = ("version", "type", "session", "seq", "length")


class Target(IntEnum):
    """Where DATA goes."""

    IMAGE = 0
    SAMPLE = 1
    STATE = 2


class Place(IntEnum):
    """Where an image lies."""

    SRAM = 0
    FLASH = 1


class Source(IntEnum):
    """What READ reads."""

    STATE = 0
    LOGITS = 1
    PROFILE = 2
    TRACE = 3
    RESULT = 4


class RunFlag(IntEnum):
    """What STEP and EVAL record beside their result."""

    PROFILE = 1
    TRACE = 2
    NO_LOGITS = 4
    RECEIVE = 8


class NakReason(IntEnum):
    """Why a frame could not be read."""

    CRC = 1
    COBS = 2
    LONG = 3
    SHORT = 4


class ErrorCode(IntEnum):
    """Why a request was not carried out; the meaning of its figures is in ERRORS."""

    UNKNOWN_TYPE = 1
    VERSION = 2
    LENGTH = 3
    NO_SESSION = 4
    OTHER_SESSION = 5
    NO_IMAGE = 6
    IMAGE_REFUSED = 7
    IMAGE_CRC = 8
    NO_ROOM = 9
    RANGE = 10
    INCOMPLETE = 11
    RUN_FAILED = 12
    FLASH = 13
    STATE_REFUSED = 14
    NO_STORE = 15
    NOTHING_SAVED = 16
    BAUD = 17


# code: (figure a, figure b, meaning). A status comes with a third figure, its detail.
ERRORS: dict[ErrorCode, tuple[str, str, str]] = {
    ErrorCode.UNKNOWN_TYPE: ("type", "0", "the device does not know this request"),
    ErrorCode.VERSION: ("device's version", "frame's version", "another version of this protocol"),
    ErrorCode.LENGTH: ("payload bytes", "expected", "the payload does not have the request's size"),
    ErrorCode.NO_SESSION: ("0", "0", "no HELLO since the device started: it was reset"),
    ErrorCode.OTHER_SESSION: ("0", "0", "another program has said HELLO since"),
    ErrorCode.NO_IMAGE: ("0", "0", "no image is open"),
    ErrorCode.IMAGE_REFUSED: ("status", "index", "the executor refuses the image (mct_status)"),
    ErrorCode.IMAGE_CRC: ("expected", "got", "the bytes in place are not the ones that were sent"),
    ErrorCode.NO_ROOM: ("needed", "available", "the pool or partition is too small (bytes)"),
    ErrorCode.RANGE: ("value", "limit", "an offset, length, label or choice outside its limit"),
    ErrorCode.INCOMPLETE: ("present", "needed", "bytes of the image, sample or state are missing"),
    ErrorCode.RUN_FAILED: ("status", "instruction", "the run stopped and changed nothing"),
    ErrorCode.FLASH: ("offset", "0", "the image partition, or the store, cannot be written"),
    ErrorCode.STATE_REFUSED: ("status", "index", "the executor refuses the written state"),
    ErrorCode.NO_STORE: ("0", "0", "the board has no flash for trained states"),
    ErrorCode.NOTHING_SAVED: ("0", "0", "no state of the open image is saved"),
    ErrorCode.BAUD: ("rate", "0", "the UART cannot make this rate within 2 %"),
}


_EMPTY = Layout()
_IMAGE = layout(
    ("place", "u8", "0 SRAM, 1 flash partition"),
    ("size", "u32", "bytes of the image"),
    ("crc", "u32", "the CRC in the image's header"),
    ("model_hash", "u8[16]", "the model hash in the image's header"),
    ("state_bytes", "u32", "bytes kept between steps"),
    ("arena_bytes", "u32", "bytes that one step uses"),
    ("sample_bytes", "u32", "bytes of a sample: all inputs, one after the other"),
    ("classes", "u16", "logits"),
    ("forward", "u32", "instructions of the forward pass"),
    ("instructions", "u32", "all instructions"),
    ("free_bytes", "u32", "bytes of the pool that are left over"),
)
_SAVED = layout(
    ("step", "u32", "training steps of the state"),
    ("state_bytes", "u32", "its bytes"),
    ("erasures_0", "u32", "erasures so far of slot 0"),
    ("erasures_1", "u32", "and of slot 1"),
)
_RUN_FLAGS = (
    "flags",
    "u8",
    "1: record the ticks, 2: the CRC-32, of each instruction; 4: no logits in the response; "
    "8: receive meanwhile, at the cost of ticks",
)

HELLO = Message(
    "HELLO",
    1,
    "Opens a session: its id is the one in the header. The image and its state stay.",
    _EMPTY,
    layout(
        ("format_version", "u16", "of the images that the executor takes"),
        ("max_payload", "u16", "bytes"),
        ("window", "u8", "DATA frames that may be in flight"),
        ("build", "u8[8]", "id of the firmware build"),
        ("pool_bytes", "u32", "SRAM for image, state and arena"),
        ("flash_bytes", "u32", "size of the image partition, 0: none"),
        ("stack_bytes", "u32", "reserved stack"),
        ("app_bytes", "u32", "static SRAM of the app itself"),
        ("counter_kind", "u8", "0 emulated instructions, 1 CPU cycles, 2 timer ticks"),
        ("counter_num", "u32", "events = ticks * num / den"),
        ("counter_den", "u32", ""),
        ("image_open", "u8", "1: an image is open"),
        ("image_size", "u32", "its bytes, else 0"),
        ("image_crc", "u32", "the CRC in its header, else 0"),
        ("step", "u32", "training steps of its state, else 0"),
        ("fault_pc", "u32", "where the fault was that caused the last reset, 0: none"),
        ("fault_lr", "u32", "its return address"),
        ("fault_cfsr", "u32", "its status bits"),
        ("fault_address", "u32", "what it accessed, 0: unknown"),
        ("board", "text", "name of the board"),
    ),
)
IMAGE_BEGIN = Message(
    "IMAGE_BEGIN",
    2,
    "Closes the open image and makes room for the DATA of another.",
    layout(("place", "u8", "0 SRAM, 1 flash partition"), ("size", "u32", "bytes of the image")),
    _EMPTY,
)
DATA = Message(
    "DATA",
    3,
    "Part of an image, sample or state: section 5.",
    layout(
        ("target", "u8", "0 image, 1 sample, 2 state"),
        ("transfer", "u16", "id of the transfer"),
        ("offset", "u32", "where these bytes go"),
        ("data", "bytes", "at least one byte"),
    ),
    layout(
        ("accepted", "u8", "1: the bytes are in place, 0: bytes before them are missing"),
        ("transfer", "u16", "the request's"),
        ("next", "u32", "all bytes before this offset are in place"),
    ),
)
IMAGE_OPEN = Message(
    "IMAGE_OPEN",
    4,
    "Verifies an image, opens it, and copies its initial state.",
    layout(
        ("place", "u8", "0 what IMAGE_BEGIN and DATA put into SRAM, 1 the flash partition"),
        ("size", "u32", "its bytes; 0: as its header says"),
        ("crc", "u32", "CRC-32 of all its bytes; not looked at if size is 0"),
    ),
    _IMAGE,
)
IMAGE_INFO = Message("IMAGE_INFO", 5, "Describes the open image.", _EMPTY, _IMAGE)
SAMPLE_MEMORY = Message(
    "SAMPLE_MEMORY",
    6,
    "Takes the sample from the flash partition, where an emulator or flasher put it.",
    layout(("offset", "u32", "bytes from the start of the partition")),
    _EMPTY,
)
STEP = Message(
    "STEP",
    7,
    "One training step with the sample, which is used up.",
    layout(
        ("label", "u16", "below the number of classes"),
        ("lr", "u32", "bits of the binary32 rate"),
        ("lr_head", "u32", "bits of the classifier's rate"),
        ("learnt", "u32", "bits of a binary32 loss: below it, the sample changes nothing"),
        _RUN_FLAGS,
    ),
    layout(
        ("step", "u32", "training steps of the state, this one included"),
        ("loss", "u32", "bits of the binary32 loss"),
        ("predicted", "u16", "class before the update"),
        ("saturated", "u32", "error elements that saturated"),
        ("clamped", "u32", "weights that saturated"),
        ("skipped", "u32", "instructions of the backward pass that had nothing to do"),
        ("ticks_forward", "u32", "counter ticks of the forward pass"),
        ("ticks_backward", "u32", "counter ticks of the rest"),
    ),
)
EVAL = Message(
    "EVAL",
    8,
    "One forward pass with the sample, which is used up. The state stays.",
    layout(_RUN_FLAGS),
    layout(
        ("predicted", "u16", "class"),
        ("ticks", "u32", "counter ticks"),
        ("logits", "bytes", "binary32 each; empty if unwanted or too many: READ them"),
    ),
)
READ = Message(
    "READ",
    9,
    "Reads bytes of the state, or of what the last EVAL or STEP left.",
    layout(
        (
            "source",
            "u8",
            "0 state, 1 logits (after EVAL), 2 ticks, 3 CRC-32 (u32 each), 4 step",
        ),
        ("offset", "u32", "bytes"),
        ("length", "u16", "bytes, 1 to 512"),
    ),
    layout(("data", "bytes", "exactly length bytes")),
)
RESET = Message(
    "RESET",
    10,
    "Back to the image's initial state; paints the pool anew.",
    layout(
        ("set_seed", "u8", "1: with the seed that follows, 0: with the image's"),
        ("seed", "u32", "of the random bits"),
    ),
    _EMPTY,
)
STATS = Message(
    "STATS",
    11,
    "Counters since the device started, and high-water marks.",
    _EMPTY,
    layout(
        ("stack_bytes", "u32", "reserved"),
        ("stack_used", "u32", "high-water mark"),
        ("pool_bytes", "u32", "size"),
        ("pool_planned", "u32", "state, arena and an image in SRAM"),
        ("pool_used", "u32", "the same by the paint"),
        ("guard_bytes", "u32", "watched bytes that the chip does not have"),
        ("guard_changed", "u32", "of these, changed ones"),
        ("steps", "u32", "steps since the device started"),
        ("evals", "u32", "evaluations"),
        ("saturated", "u32", "sum over all steps"),
        ("clamped", "u32", "sum over all steps"),
        ("skipped", "u32", "sum over all steps"),
        ("learnt", "u32", "steps with a loss below the given one"),
        ("frames", "u32", "good frames received"),
        ("damaged", "u32", "frames answered with NAK"),
        ("stale", "u32", "good frames dropped: an older sequence number"),
        ("resent", "u32", "responses sent again"),
        ("rx_overruns", "u32", "times the UART lost bytes"),
        ("rx_stalls", "u32", "times the receive ring was full"),
    ),
)
REBOOT = Message("REBOOT", 12, "Resets the device after the response.", _EMPTY, _EMPTY)
SAVE = Message(
    "SAVE",
    13,
    "Keeps the state in flash, whatever power does. Seconds may pass before the response.",
    _EMPTY,
    _SAVED,
)
LOAD = Message(
    "LOAD",
    14,
    "The newest saved state of the open image takes the place of its state.",
    _EMPTY,
    _SAVED,
)
SPEED = Message(
    "SPEED",
    15,
    "Another rate of the line, from behind the response on: section 9.",
    layout(
        ("baud", "u32", "bits a second; 0: the rate that the device starts with"),
        ("keep", "u8", "0: on trial, 1: for good"),
    ),
    _EMPTY,
)

MESSAGES = (
    HELLO,
    IMAGE_BEGIN,
    DATA,
    IMAGE_OPEN,
    IMAGE_INFO,
    SAMPLE_MEMORY,
    STEP,
    EVAL,
    READ,
    RESET,
    STATS,
    REBOOT,
    SAVE,
    LOAD,
    SPEED,
)
ERROR_LAYOUT = layout(
    ("code", "u16", "section 7"),
    ("a", "u32", "a figure"),
    ("b", "u32", "a figure"),
    ("c", "u32", "detail of a status, else 0"),
)
NAK_LAYOUT = layout(("reason", "u8", "1 CRC, 2 COBS, 3 longer than any frame, 4 shorter"))
