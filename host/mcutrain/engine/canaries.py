"""Watch the bytes beside every buffer of an image that was compiled with canaries; slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcutrain.engine.engine import Engine, HookEvent
from mcutrain.image.status import status_error

_OVERRUN = -16


@contextmanager
def canaries(engine: Engine) -> Iterator[None]:
    """Watch while something runs.

    Raises:
        InternalError: a kernel wrote beside a buffer; at the end of the run.
    """

    def note(instruction: int, event: HookEvent) -> None:
        check_canaries(engine, instruction, event)

    with engine.hook(note):
        yield


def check_canaries(engine: Engine, instruction: int, event: HookEvent) -> None:
    """What a hook must do for every event.

    Raises:
        InternalError: the instruction wrote beside a buffer.
    """
    tensor = engine.overrun(instruction, event)
    if tensor is not None:
        raise status_error(_OVERRUN, instruction, tensor, engine.image)
