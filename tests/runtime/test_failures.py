"""What foreign code raised, in a line for its author."""

from __future__ import annotations

from ordo.runtime.errors import SnapshotError
from ordo.runtime.reporting.failures import LINE_LENGTH_MAX, one_line, place_of, traceback_of
from ordo.service_api.snapshot import SnapshotWriter


def raised(call: object) -> Exception:
    try:
        call()  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def divide() -> float:
    return 1 / 0


def test_the_line_of_the_author_is_named_not_that_of_ordo() -> None:
    assert one_line(raised(divide)) == "ZeroDivisionError: division by zero (test_failures.py:19)"

    def write_to_a_closed_one() -> None:
        writer = SnapshotWriter(lambda message: None, 100)
        writer.close()
        writer.write(b"")

    error = raised(write_to_a_closed_one)
    assert isinstance(error, SnapshotError)
    assert place_of(error).startswith(__file__), "what Ordo raised was called from there"


def test_long_texts_and_lines_are_made_one_short_line() -> None:
    told = one_line(ValueError("a\nb " + "x" * 1000))
    assert told.startswith("ValueError: a b xxx") and "\n" not in told
    assert len(told) == LINE_LENGTH_MAX + 3
    assert one_line(KeyError()) == "KeyError"


def test_the_traceback_is_pythons() -> None:
    told = traceback_of(raised(divide))
    assert told.startswith("Traceback (most recent call last):") and "return 1 / 0" in told
