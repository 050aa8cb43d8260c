"""Errors carry what, where, why and the next step, and a documented exit code."""

import pickle

import pytest

from mcutrain import errors


def _all_subclasses(cls: type[errors.McutrainError]) -> list[type[errors.McutrainError]]:
    return [cls, *(c for sub in cls.__subclasses__() for c in _all_subclasses(sub))]


@pytest.mark.parametrize("cls", _all_subclasses(errors.McutrainError))
def test_every_error_has_a_documented_exit_code(cls: type[errors.McutrainError]) -> None:
    assert cls.exit_code in errors.EXIT_CODES
    assert cls.exit_code not in (0, 1), "0 is success; 1 is Python's own crash"


def test_every_exit_code_but_success_has_an_error() -> None:
    used = {cls.exit_code for cls in _all_subclasses(errors.McutrainError)}
    assert used == set(errors.EXIT_CODES) - {0}


def test_exit_codes_fit_a_shell_and_have_distinct_names() -> None:
    names = [text.partition(":")[0] for text in errors.EXIT_CODES.values()]
    assert len(set(names)) == len(names)
    assert all(0 <= code < 126 for code in errors.EXIT_CODES), "126 and up belong to the shell"


def test_text_shows_what_where_why_next_in_this_order() -> None:
    err = errors.FitError(
        "does not fit",
        where="conv3",
        why="needs 140 KB of 128 KB",
        hint="mcutrain plan --sram 128K",
    )
    assert str(err).splitlines() == [
        "does not fit",
        "  where: conv3",
        "  why:   needs 140 KB of 128 KB",
        "  next:  mcutrain plan --sram 128K",
    ]


def test_absent_parts_are_left_out() -> None:
    assert str(errors.LinkError("no answer", why="2 s passed")) == "no answer\n  why:   2 s passed"


def test_as_dict_has_the_same_content() -> None:
    assert errors.InputError("bad", where="net.tflite").as_dict() == {
        "error": "input",
        "message": "bad",
        "where": "net.tflite",
        "why": None,
        "hint": None,
        "exit_code": 3,
    }


def test_errors_survive_pickling() -> None:
    """Worker processes hand errors back by pickling them."""
    err = pickle.loads(pickle.dumps(errors.ImageError("refused", where="a.mct", why="CRC")))
    assert isinstance(err, errors.ImageError)
    assert (err.message, err.where, err.why, err.hint) == ("refused", "a.mct", "CRC", None)
