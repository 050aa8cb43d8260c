"""`mcutrain COMMAND`: the list of commands, and what becomes of their errors."""

from __future__ import annotations

import contextlib
import errno
import json
import shlex
import sys
import traceback
from inspect import cleandoc

import typer
from rich.markup import escape
from typer.main import get_command

from mcutrain import __version__
from mcutrain.cli import (
    accuracy,
    bench,
    boards,
    build,
    demo,
    doctor,
    evaluate,
    flash,
    import_network,
    inspect,
    pack,
    plan,
    pull,
    quantize,
    record,
    report,
    save,
    stream,
    train,
)
from mcutrain.cli.common import ERR
from mcutrain.cli.process import drop_output, prepare
from mcutrain.errors import (
    EXIT_CODES,
    InputError,
    InternalError,
    InterruptedRunError,
    McutrainError,
    UsageError,
)
from mcutrain.files import reason

_CODES = "\n".join(["Exit codes:", *(f"{code}: {text}" for code, text in EXIT_CODES.items())])
_CTRL_C = 130  # what typer makes of KeyboardInterrupt


def _paragraphs(docstring: str) -> str:
    """One line a paragraph: typer keeps the source's line breaks from the second one on."""
    return "\n\n".join(part.replace("\n", " ") for part in cleandoc(docstring).split("\n\n"))


app = typer.Typer(
    name="mcutrain",
    help="Train int8 neural networks on microcontrollers, bit for bit as on the host.",
    epilog=_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _name, _run in (
    ("doctor", doctor.run),
    ("import", import_network.run),
    ("quantize", quantize.run),
    ("plan", plan.run),
    ("pack", pack.run),
    ("boards", boards.run),
    ("build", build.run),
    ("flash", flash.run),
    ("inspect", inspect.run),
    ("train", train.run),
    ("eval", evaluate.run),
    ("stream", stream.run),
    ("record", record.run),
    ("pull", pull.run),
    ("save", save.run),
    ("bench", bench.run),
    ("report", report.run),
    ("demo", demo.run),
    ("accuracy", accuracy.run),
):
    app.command(_name, help=_paragraphs(_run.__doc__ or ""), epilog=_CODES)(_run)
_COMMANDS = [command.name for command in app.registered_commands]


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"mcutrain {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    del version  # the callback has seen it


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with its code; errors go to stderr, or to stdout with `--json`."""
    prepare()
    words = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        outcome = _run_command(words)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        drop_output()
        sys.exit(0)
    except OSError as error:
        outcome = _cannot_print(error)
    if isinstance(outcome, int):
        sys.exit(outcome)
    _report(_completed(outcome, words), "--json" in words)
    sys.exit(outcome.exit_code)


def _report(error: McutrainError, as_json: bool) -> None:
    try:
        if as_json:
            sys.stdout.write(json.dumps(error.as_dict(), indent=2) + "\n")
            sys.stdout.flush()
            return
    except OSError:
        pass  # stderr may still be read
    with contextlib.suppress(OSError):
        ERR.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
    drop_output()


def _completed(error: McutrainError, words: list[str]) -> McutrainError:
    """The error with a place and a next command, should its author have had none to name."""
    command = " ".join(["mcutrain", *words[:1]]) if words[0] in _COMMANDS else "mcutrain"
    error.where = error.where or command
    if error.hint is None:
        error.hint = (
            f"run the same command again: {shlex.join(['mcutrain', *words])}"
            if isinstance(error, InterruptedRunError)
            else f"{command} --help shows what it takes, with an example"
        )
    return error


def _run_command(words: list[str]) -> McutrainError | int:
    """The error that a command ended with, or the exit code that it chose."""
    try:
        code = get_command(app)(words, prog_name="mcutrain", standalone_mode=False) or 0
    except McutrainError as error:
        return error
    except (KeyboardInterrupt, typer.Abort):
        return _stopped()
    except typer.TyperException as error:
        # Only its sub-classes, which typer does not export, know the option's name.
        return UsageError(getattr(error, "format_message", error.__str__)())
    except SystemExit:
        # So typer ends when nobody reads our output any more.
        raise BrokenPipeError from None
    except MemoryError as error:
        return InputError(
            "this machine has too little memory for it",
            why=str(error) or None,
            hint="take fewer samples (...?count=N), a smaller network or fewer classes",
        )
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EIO):
            return _cannot_print(error)
        return _defect(error)
    except Exception as error:
        return _defect(error)
    return _stopped() if code == _CTRL_C else int(code)


def _defect(error: Exception) -> McutrainError:
    traceback.print_exc()
    return InternalError(
        f"{type(error).__name__}: {error}",
        why="this is a defect of mcutrain, not of your input",
        hint="please report it with the lines above",
    )


def _cannot_print(error: OSError) -> McutrainError:
    return InputError(
        "cannot write the output",
        where="standard output",
        why=reason(error),
        hint="check that there is room where it goes",
    )


def _stopped() -> McutrainError:
    return InterruptedRunError("stopped", why="by the user (Ctrl-C) or a signal")
