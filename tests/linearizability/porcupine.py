"""A second opinion on histories of registers: Porcupine's, by a program in Go (`with_porcupine/`).

`python -m tests.linearizability.porcupine FILE` asks both about a history that was kept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from tests.linearizability.checker import UNKNOWN, Model, Operation, Verdict
from tests.linearizability.checker import check as check_here
from tests.linearizability.models import ZeroRegister

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).parent / "with_porcupine"
PROGRAM = ROOT / "build" / "porcupine" / "registers"
BUILD_TIMEOUT_S = 300
CHECK_TIME_LIMIT_S = 60.0
TELLING = ("read", "append")
"""Kinds whose answer is a value."""
BOTH = "the checker here and porcupine"
Second = Callable[[Sequence[Operation], Any], Verdict]


class PorcupineMissingError(RuntimeError):
    """There is no Go here, or the module cannot be had."""


def build() -> Path:
    """Return the program; Go compiles it once. Raises PorcupineMissingError where it cannot be built."""
    if shutil.which("go") is None:
        raise PorcupineMissingError("Go is not installed")
    command = ["go", "-C", str(SOURCE), "build", "-mod=readonly", "-buildvcs=false", "-o", str(PROGRAM), "."]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode:
        raise PorcupineMissingError(f"go build: {' '.join(done.stderr.split())[-1000:]}")
    return PROGRAM


def ask(operations: Sequence[Operation], initial: Any, time_limit_s: float = CHECK_TIME_LIMIT_S) -> Verdict:
    """Porcupine's verdict on registers that hold `initial` at first."""
    command = [str(build()), "-initial", str(-1 if initial is None else initial), "-limit", f"{time_limit_s}s"]
    history = "".join(f"{line}\n" for line in encode(operations))
    done = subprocess.run(command, input=history, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"porcupine refused the history: {done.stderr.strip()}")
    return Verdict(done.stdout.strip())


def demand_linearizable(operations: Sequence[Operation], model: Model, kept: Path, second: Second = ask) -> str:
    """Asks both; who was asked. Raises AssertionError, with the history in the file `kept`, where
    one of them says that it is not linearizable: then the history is wrong, or one of the checkers is."""
    result = check_here(operations, model, CHECK_TIME_LIMIT_S)
    try:
        other, asked = second(operations, model.initial()), BOTH
    except PorcupineMissingError as error:
        other, asked = Verdict.UNDECIDED, f"the checker here alone: {error}"
    said = {result.verdict, other}
    if Verdict.VIOLATED not in said and Verdict.LINEARIZABLE in said:
        return asked
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("".join(f"{line}\n" for line in encode(operations)))
    word = "DISAGREEMENT" if said == {Verdict.VIOLATED, Verdict.LINEARIZABLE} else "not linearizable"
    raise AssertionError(
        f"{word}: the checker here says {result.describe()}; porcupine says {other.name}; the history is in {kept}: "
        f"python -m tests.linearizability.porcupine {kept}"
    )


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
