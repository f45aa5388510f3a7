"""The checker is proven on histories with known verdicts, and against brute force on small ones."""

import csv
from itertools import permutations
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import SHARED_DATA
from tests.linearizability.checker import UNKNOWN, Model, Operation, Verdict, check, is_explained_by_places
from tests.linearizability.history import History, parse_jepsen, parse_kv
from tests.linearizability.models import Register, Text

FOLDER = SHARED_DATA / "linearizability"
TIME_LIMIT_S = 60.0


def known_verdicts() -> list[tuple[str, bool]]:
    """Every file of the data with its verdict; nothing where the data is not there."""
    table = FOLDER / "expected.csv"
    if not table.is_file():
        return []
    with table.open() as file:
        return [(row["file"], row["linearizable"] == "true") for row in csv.DictReader(file)]


@pytest.mark.shared_data
def test_every_history_file_has_a_verdict(shared_data: Path) -> None:
    files = {str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*")}
    assert files == {name for name, _ in known_verdicts()}
    assert len(files) > 50


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "is_linearizable"), known_verdicts())
def test_known_verdict(name: str, is_linearizable: bool) -> None:
    lines = (FOLDER / name).read_text().splitlines()
    model: Model = Text() if name.startswith("kv/") else Register()
    operations = parse_kv(lines) if name.startswith("kv/") else parse_jepsen(lines)
    result = check(operations, model, TIME_LIMIT_S)
    assert result.verdict is (Verdict.LINEARIZABLE if is_linearizable else Verdict.VIOLATED), result.describe()


def register(*operations: tuple[str, object, object, float, float]) -> list[Operation]:
    """A history of one register: kind, argument, output, called, returned."""
    return [Operation(index, "x", *operation) for index, operation in enumerate(operations)]


def test_read_after_a_write_returned_must_see_it() -> None:
    stale = register(("write", 1, None, 0, 1), ("read", None, None, 2, 3))
    result = check(stale, Register())
    assert result.verdict is Verdict.VIOLATED
    assert result.stuck_at == stale[1]
    assert result.order == [stale[0]]
    assert "key='x'" in result.describe()


def test_concurrent_operations_may_take_effect_in_either_order() -> None:
    for seen in (None, 1):
        history = register(("write", 1, None, 0, 5), ("read", None, seen, 1, 2))
        assert check(history, Register()).verdict is Verdict.LINEARIZABLE


def test_reads_never_go_back() -> None:
    history = register(("write", 1, None, 0, 9), ("read", None, 1, 1, 2), ("read", None, None, 3, 4))
    assert check(history, Register()).verdict is Verdict.VIOLATED


def test_unknown_outcome_may_take_effect_late_or_never() -> None:
    write = ("write", 1, UNKNOWN, 0, inf)
    for seen in (None, 1):
        history = register(write, ("read", None, None, 5, 6), ("read", None, seen, 7, 8))
        assert check(history, Register()).verdict is Verdict.LINEARIZABLE
    history = register(write, ("read", None, 1, 5, 6), ("read", None, None, 7, 8))
    assert check(history, Register()).verdict is Verdict.VIOLATED


def test_keys_are_checked_apart() -> None:
    history = History()
    for key, seen in (("a", "1"), ("b", "")):
        history.ok(history.call(0, key, "put", "1", 0), None, 1)
        history.ok(history.call(0, key, "get", None, 2), seen, 3)
    result = check(history.operations(), Text())
    assert result.verdict is Verdict.VIOLATED
    assert result.key == "b"


def test_refused_operations_do_not_count_and_open_ones_may() -> None:
    history = History()
    history.refused(history.call(0, "a", "put", "1", 0))
    history.call(1, "a", "append", "2", 0)
    history.ok(history.call(2, "a", "get", None, 5), "2", 6)
    assert check(history.operations(), Text()).verdict is Verdict.LINEARIZABLE
    assert len(history.operations()) == 2


def test_a_known_order_of_effects_decides_what_a_search_cannot() -> None:
    """Forty writes whose outcome nobody learnt, and a reader that saw one in the middle."""
    writes = [Operation(number, "a", "write", number, UNKNOWN, 0.0, inf, (number, 0)) for number in range(40)]
    read = Operation(99, "a", "read", None, 20, 50.0, 60.0, (20, 1))
    assert check([*writes, read], Register(), time_limit_s=0).verdict is Verdict.LINEARIZABLE
    late = [Operation(1, "a", "write", 1, None, 0, 1, (2, 0)), Operation(2, "a", "write", 2, None, 5, 6, (1, 0))]
    assert not is_explained_by_places(late, Register()), "the second was called after the first had returned"
    assert is_explained_by_places([late[0]._replace(returned=5), late[1]], Register()), "they may have been concurrent"
    wrong = read._replace(output=3)
    assert not is_explained_by_places([*writes, wrong], Register())
    assert not is_explained_by_places([*writes, read._replace(place=None)], Register())


def test_a_wrong_order_of_effects_is_no_violation() -> None:
    history = [
        Operation(1, "a", "write", 1, None, 0, 5, (2, 0)),
        Operation(2, "a", "read", None, 1, 1, 2, (1, 0)),
    ]
    assert not is_explained_by_places(history, Register())
    assert check(history, Register()).verdict is Verdict.LINEARIZABLE


def test_time_limit_gives_an_honest_answer() -> None:
    writes = [("write", number, None, 0.0, 100.0) for number in range(40)]
    history = register(*writes, ("read", None, 99, 50.0, 60.0))
    ticks = iter(range(10**9))
    result = check(history, Register(), time_limit_s=3, clock=lambda: float(next(ticks)))
    assert result.verdict is Verdict.UNDECIDED


operations = st.lists(
    st.tuples(
        st.sampled_from(["read", "write", "cas"]),
        st.integers(0, 1),
        st.sampled_from([None, 0, 1]),
        st.booleans(),
        st.integers(0, 6),
        st.integers(0, 6),
        st.booleans(),
    ),
    max_size=5,
)


def allowed_by_brute_force(history: list[Operation]) -> bool:
    """Try every order of every choice of unanswered operations."""
    model = Register()
    for order in permutations(history):
        for length in range(len(order) + 1):
            left_out = order[length:]
            if any(operation.returned != inf for operation in left_out):
                continue
            chosen = order[:length]
            if any(b.returned < a.called for i, a in enumerate(chosen) for b in chosen[i + 1 :]):
                continue
            state, is_allowed = model.initial(), True
            for operation in chosen:
                fits, state = model.step(state, operation)
                is_allowed &= fits
            if is_allowed:
                return True
    return False


@given(operations)
def test_against_brute_force(drawn: list[tuple[str, int, int | None, bool, int, int, bool]]) -> None:
    history = []
    for index, (kind, argument, seen, flag, called, length, is_open) in enumerate(drawn):
        output = {"read": seen, "write": None, "cas": flag}[kind]
        given_argument = (seen, argument) if kind == "cas" else argument
        returned = inf if is_open else called + length
        history.append(Operation(index, "x", kind, given_argument, UNKNOWN if is_open else output, called, returned))
    expected = Verdict.LINEARIZABLE if allowed_by_brute_force(history) else Verdict.VIOLATED
    assert check(history, Register()).verdict is expected


def test_lines_of_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match="line 1"):
        parse_jepsen(["nonsense"])
    with pytest.raises(ValueError, match="line 1"):
        parse_kv(["nonsense"])
