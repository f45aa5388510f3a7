"""A second opinion on histories of registers: Porcupine's, by a program in Go (`with_porcupine/`).

`python -m tests.linearizability.porcupine FILE` asks both about a history that was kept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from tests.linearizability.checker import UNKNOWN, Model, Operation, Verdict
from tests.linearizability.checker import check as check_here
from tests.linearizability.models import ZeroRegister
from tests.patience import patient
from tests.peers.peer_process import PeerFailedError, PeerMissingError, are_required, only_one

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).parent / "with_porcupine"
PROGRAM = ROOT / "build" / "porcupine" / "registers"
BUILD_TIMEOUT_S = 300.0
CHECK_TIME_LIMIT_S = 60.0
"""For each of the two checkers; one that takes longer is undecided."""
ANSWER_TIMEOUT_S = CHECK_TIME_LIMIT_S + 60.0
TELLING = ("read", "append")
"""Kinds whose answer is a value."""
HERE, THERE = "the checker here", "porcupine"
BOTH = f"{HERE} and {THERE}"
Second = Callable[[Sequence[Operation], Any], Verdict]


def build(source: Path = SOURCE, program: Path = PROGRAM) -> Path:
    """Return the program, which Go compiles first. Raises PeerMissingError where there is no Go, or the modules cannot
    be had, and PeerFailedError where the program does not compile."""
    if shutil.which("go") is None:
        raise PeerMissingError("Go is not installed")
    with only_one():
        _run_go(["go", "mod", "download"], source, PeerMissingError)
        command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", str(program), "."]
        _run_go(command, source, PeerFailedError)
    return program


@cache
def built() -> Path:
    """Return the program as `build` does, once in a process."""
    return build()


def _run_go(command: list[str], folder: Path, error: type[Exception]) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=patient(BUILD_TIMEOUT_S), check=False
        )
    except subprocess.TimeoutExpired as late:
        raise PeerMissingError(f"not done within {late.timeout:g} s: {' '.join(command)}") from None
    if done.returncode:
        raise error(f"{' '.join(command)}: {' '.join(done.stderr.split())[-1000:]}")


def prepare() -> None:
    """Build the program before there is a history. Raises PeerMissingError where it has to be there and is not, and
    PeerFailedError where it does not compile."""
    try:
        built()
    except PeerMissingError:
        if are_required():
            raise


def ask(operations: Sequence[Operation], initial: Any, time_limit_s: float = CHECK_TIME_LIMIT_S) -> Verdict:
    """Porcupine's verdict on registers that hold `initial` at first."""
    command = [str(built()), "-initial", str(-1 if initial is None else initial), "-limit", f"{time_limit_s}s"]
    history = "".join(f"{line}\n" for line in encode(operations))
    limit_s = patient(ANSWER_TIMEOUT_S)
    try:
        done = subprocess.run(command, input=history, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return Verdict.UNDECIDED
    if done.returncode:
        raise ValueError(f"porcupine refused the history: {done.stderr.strip()}")
    return Verdict(done.stdout.strip())


def demand_linearizable(operations: Sequence[Operation], model: Model, kept: Path, second: Second = ask) -> str:
    """Asks both; who found it to be linearizable. Raises AssertionError where one of them says that it is not (then
    the history is wrong, or one of the checkers is), and where none decided. Whatever is raised, `kept` has the
    history."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("".join(f"{line}\n" for line in encode(operations)))
    result = check_here(operations, model, CHECK_TIME_LIMIT_S)
    missing = ""
    try:
        other = second(operations, model.initial())
    except PeerMissingError as error:
        if are_required():
            raise
        other, missing = Verdict.UNDECIDED, str(error)
    said = {result.verdict, other}
    if Verdict.VIOLATED not in said and Verdict.LINEARIZABLE in said:
        kept.unlink()
        return _name_who_decided(result.verdict, other, missing)
    raise AssertionError(
        f"{_word_for(said)}: the checker here says {result.describe()}; porcupine says {missing or other.name}; the "
        f"history is in {kept}: python -m tests.linearizability.porcupine {kept}"
    )


def _name_who_decided(here: Verdict, there: Verdict, missing: str) -> str:
    if missing:
        return f"{HERE} alone: {missing}"
    if here is there:
        return BOTH
    return f"{HERE}; {THERE} is undecided" if here is Verdict.LINEARIZABLE else f"{THERE}; {HERE} is undecided"


def _word_for(said: set[Verdict]) -> str:
    if said == {Verdict.UNDECIDED}:
        return "undecided"
    return "DISAGREEMENT" if said == {Verdict.VIOLATED, Verdict.LINEARIZABLE} else "not linearizable"


def encode(operations: Iterable[Operation]) -> list[str]:
    """One line of JSON for each operation, with ranks in place of times: what is at one time stays concurrent."""
    operations = list(operations)
    times = sorted({time for one in operations for time in (one.called, one.returned)})
    ranks = {time: rank for rank, time in enumerate(times)}
    return [json.dumps(_fields(one, ranks)) for one in operations]


def _fields(one: Operation, ranks: dict[float, int]) -> dict[str, Any]:
    is_known = one.output is not UNKNOWN
    is_swap = one.kind == "cas"
    expected, argument = one.argument if is_swap else (None, one.argument)
    return {
        "process": hash(one.process) if not isinstance(one.process, int) else one.process,
        "key": str(one.key),
        "kind": one.kind,
        "argument": argument,
        "expected": expected,
        "output": one.output if is_known and one.kind in TELLING else None,
        "matched": bool(one.output) if is_swap and is_known else None,
        "called": ranks[one.called],
        "returned": ranks[one.returned],
        "is_known": is_known,
    }


def decode(lines: Iterable[str]) -> list[Operation]:
    """What `encode` made of operations; those that never returned do so after all others, which says the same."""
    operations = []
    for fields in map(json.loads, lines):
        is_swap = fields["kind"] == "cas"
        argument = (fields["expected"], fields["argument"]) if is_swap else fields["argument"]
        output = fields["matched"] if is_swap else fields["output"]
        known = fields["is_known"]
        returned = fields["returned"] if known else inf
        operations.append(
            Operation(
                fields["process"], fields["key"], fields["kind"], argument, output if known else UNKNOWN,
                fields["called"], returned,
            )
        )  # fmt: skip
    return operations


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 where the history is not linearizable, or the two do not agree."""
    (name,) = arguments
    operations = decode(Path(name).read_text().splitlines())
    here, there = check_here(operations, ZeroRegister(), CHECK_TIME_LIMIT_S), ask(operations, 0)
    print(f"{len(operations)} operations: the checker here says {here.describe()}; porcupine says {there.name}")
    return int({here.verdict, there} != {Verdict.LINEARIZABLE})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
