"""Two checkers of different authors on the same histories; what they do not agree on is kept, and told."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.linearizability import porcupine
from tests.linearizability.checker import CLOCK_CHECK_INTERVAL, UNKNOWN, Operation, Verdict, check
from tests.linearizability.history import parse_jepsen
from tests.linearizability.models import Register, ZeroRegister
from tests.linearizability.porcupine import ask, build, built, decode, demand_linearizable, encode, prepare
from tests.linearizability.test_checker import FOLDER, known_verdicts
from tests.peers.peer_process import PeerFailedError, PeerMissingError, go_without

KINDS = ("read", "write", "cas", "append")
CLIENTS, OPERATIONS = 4, 30
REGISTERS = [row for row in known_verdicts() if row[0].startswith("jepsen/")]


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    try:
        return built()
    except PeerMissingError as missing:
        go_without(missing)


@pytest.fixture
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There is no Go, and the program was not built before; nor does anything have to be there."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ORDO_PEERS", raising=False)
    built.cache_clear()
    yield
    built.cache_clear()


def draw(seed: int, overlap: float) -> list[Operation]:
    """A linearizable history of two registers: each operation takes effect at its own moment, and begins and ends so
    much earlier and later that others may do so meanwhile. A few never return."""
    generator, register = Random(seed), ZeroRegister()
    held, free_from, history = {"x": 0, "y": 0}, [0.0] * CLIENTS, []
    for moment in range(1, OPERATIONS + 1):
        process = generator.randrange(CLIENTS)
        key, kind = generator.choice("xy"), generator.choice(KINDS)
        called = max(free_from[process], moment - overlap * generator.random())
        returned = moment + overlap * generator.random()
        if called > moment:
            continue
        expected = held[key] if generator.random() < 0.5 else generator.randrange(9)
        argument = {"read": None, "cas": (expected, moment)}.get(kind, moment)
        before = Operation(process, key, kind, argument, UNKNOWN, called, returned)
        _, after = register.step(held[key], before)
        output = {"write": None, "cas": expected == held[key]}.get(kind, after)
        held[key] = after
        free_from[process] = returned + 0.001
        history.append(before._replace(output=output))
    return history


def alter(one: Operation) -> Operation:
    """The same operation with another answer."""
    return one._replace(output=not one.output if one.kind == "cas" else one.output + 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("overlap", [0.4, 3.0])
def test_both_say_that_a_history_is_linearizable(seed: int, overlap: float, tmp_path: Path) -> None:
    history = draw(seed, overlap)
    assert {one.kind for one in history} == set(KINDS)
    assert demand_linearizable(history, ZeroRegister(), tmp_path / "kept.jsonl") == porcupine.BOTH
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["read", "cas", "append"])
def test_one_altered_answer_is_refused_by_both(kind: str, tmp_path: Path) -> None:
    history, kept = draw(1, 0.4), tmp_path / "folder" / "kept.jsonl"
    index = next(index for index, one in enumerate(history) if one.kind == kind)
    history[index] = alter(history[index])
    assert check(history, ZeroRegister()).verdict is Verdict.VIOLATED
    assert ask(history, 0) is Verdict.VIOLATED
    with pytest.raises(AssertionError, match=r"not linearizable: .* porcupine says VIOLATED; the history is in .*kept"):
        demand_linearizable(history, ZeroRegister(), kept)
    assert porcupine.main([str(kept)]) == 1


@pytest.mark.parametrize("seed", range(10))
def test_both_say_the_same_of_altered_answers_that_may_be_right(seed: int) -> None:
    """Where many operations overlap, another answer may have another order; some never return."""
    history, generator = draw(seed, 6.0), Random(seed)
    for _ in range(2):
        index = generator.randrange(len(history))
        one = history[index]
        history[index] = one._replace(output=UNKNOWN, returned=float("inf")) if one.kind == "write" else alter(one)
    assert ask(history, 0) is check(history, ZeroRegister()).verdict


def test_a_disagreement_is_told_and_its_history_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def contradict(operations: Sequence[Operation], initial: Any) -> Verdict:
        return Verdict.VIOLATED

    kept = tmp_path / "kept.jsonl"
    with pytest.raises(AssertionError, match="DISAGREEMENT: the checker here says LINEARIZABLE; porcupine says VIOL"):
        demand_linearizable(draw(2, 3.0), ZeroRegister(), kept, contradict)
    assert porcupine.main([str(kept)]) == 0
    assert "the checker here says LINEARIZABLE; porcupine says LINEARIZABLE" in capsys.readouterr().out


def test_a_program_that_does_not_compile_is_no_missing_one(tmp_path: Path) -> None:
    source = shutil.copytree(porcupine.SOURCE, tmp_path / "source")
    (source / "main.go").write_text("package main\n\nfunc main() { nothing() }\n")
    with pytest.raises(PeerFailedError, match="undefined: nothing"):
        build(source, tmp_path / "program")


@pytest.mark.usefixtures("no_go")
def test_where_porcupine_is_required_no_verdict_is_given_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare()
    monkeypatch.setenv("ORDO_PEERS", "required")
    with pytest.raises(PeerMissingError, match="Go is not installed"):
        prepare()
    with pytest.raises(PeerMissingError, match="Go is not installed"):
        demand_linearizable(draw(3, 3.0), ZeroRegister(), tmp_path / "kept.jsonl")
    assert (tmp_path / "kept.jsonl").read_text().count("\n") == len(draw(3, 3.0))


def test_who_is_undecided_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hesitate(operations: Sequence[Operation], initial: Any) -> Verdict:
        return Verdict.UNDECIDED

    reads = [Operation(0, "x", "read", None, 0, moment, moment + 0.5) for moment in range(2 * CLOCK_CHECK_INTERVAL)]
    kept = tmp_path / "kept.jsonl"
    assert demand_linearizable(reads, ZeroRegister(), kept, hesitate) == "the checker here; porcupine is undecided"
    monkeypatch.setattr(porcupine, "CHECK_TIME_LIMIT_S", -1.0)
    assert demand_linearizable(reads, ZeroRegister(), kept) == "porcupine; the checker here is undecided"
    assert not kept.exists()
    with pytest.raises(AssertionError, match=r"^undecided: the checker here says UNDECIDED.* porcupine says UNDECIDED"):
        demand_linearizable(reads, ZeroRegister(), kept, hesitate)


@pytest.mark.usefixtures("no_go")
def test_without_go_the_verdict_says_who_was_not_asked(tmp_path: Path) -> None:
    asked = demand_linearizable(draw(3, 3.0), ZeroRegister(), tmp_path / "kept.jsonl")
    assert asked == "the checker here alone: Go is not installed"
    history = draw(3, 0.4)
    index = next(index for index, one in enumerate(history) if one.kind == "read")
    history[index] = alter(history[index])
    with pytest.raises(AssertionError, match="not linearizable: "):
        demand_linearizable(history, ZeroRegister(), tmp_path / "kept.jsonl")


def test_a_history_that_was_kept_is_read_as_it_was() -> None:
    history = [*draw(4, 3.0), Operation(9, "x", "write", 7, UNKNOWN, 5.0, float("inf"))]
    lines = encode(history)
    assert encode(decode(lines)) == lines
    with pytest.raises(ValueError, match="a register knows read, write, cas and append"):
        ask([history[0]._replace(kind="swap")], 0)


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "is_linearizable"), REGISTERS)
def test_porcupine_knows_the_known_verdicts(name: str, is_linearizable: bool) -> None:
    history = parse_jepsen((FOLDER / name).read_text().splitlines())
    assert ask(history, Register().initial()) is (Verdict.LINEARIZABLE if is_linearizable else Verdict.VIOLATED)
