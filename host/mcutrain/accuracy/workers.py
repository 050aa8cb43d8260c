"""Processes that execute runs, one core each."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

from mcutrain.accuracy.grid import Settings
from mcutrain.errors import InternalError, McutrainError

# A core each: the products here are too small for threads to help.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Workers:
    """A few processes; end them with the `with` block, whatever they do then.

    Args:
        count: how many.
        refdata, out: see `mcutrain.accuracy.execute.execute`.
    """

    def __init__(self, count: int, refdata: Path, out: Path) -> None:
        self._count, self._arguments = count, (refdata, out)
        self._idle: list[Connection] = []
        self._busy: dict[Connection, Settings] = {}
        self._processes: list[Any] = []

    def __enter__(self) -> Self:
        spawn = multiprocessing.get_context("spawn")
        with _one_thread():
            for _ in range(self._count):
                ours, theirs = spawn.Pipe()
                process = spawn.Process(target=_serve, args=(theirs, *self._arguments), daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._idle.append(ours)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    @property
    def running(self) -> list[Settings]:
        """What is being executed."""
        return list(self._busy.values())

    @property
    def idle(self) -> int:
        """How many processes wait for work."""
        return len(self._idle)

    def start(self, settings: Settings) -> None:
        """Give a run to an idle process."""
        pipe = self._idle.pop()
        pipe.send(settings)
        self._busy[pipe] = settings

    def finished(self) -> Iterator[tuple[Settings, dict[str, Any]]]:
        """Wait until at least one run is done.

        Raises:
            McutrainError: what a run ended with.
        """
        for pipe in wait(list(self._busy)):
            assert isinstance(pipe, Connection)
            settings = self._busy.pop(pipe)
            try:
                result = pipe.recv()
            except EOFError:
                raise InternalError(
                    "a worker process ended",
                    where=f"{settings.row.scheme} on {settings.row.data}",
                    hint="what was done is kept: run the same command again",
                ) from None
            if isinstance(result, BaseException):
                raise result
            self._idle.append(pipe)
            yield settings, result


@contextmanager
def _one_thread() -> Iterator[None]:
    """What processes that start meanwhile find in their environment."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(pipe: Connection, refdata: Path, out: Path) -> None:
    """A worker: settings in, results or errors out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    from mcutrain.accuracy.execute import execute

    while True:
        try:
            settings = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(execute(settings, refdata, out))
        except McutrainError as error:
            pipe.send(error)
