"""What a message costs, in system calls and in instructions: counted in lockstep under strace and Callgrind.

`python -m tests.budget.counts` (`make budget`) writes table.json anew; test_budget.py compares with it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.budget.lockstep import (
    ASYNCIO_PHASE,
    MEMBERS,
    PHASES,
    SESSION_COUNT,
    SESSION_MESSAGE_COUNT,
    SESSIONS_PHASE,
    TASK_COUNT,
    TASK_REQUEST_COUNT,
)
from tests.budget.probes import PROBE_COUNT, PROBES_PHASE

TABLE = Path(__file__).parent / "table.json"
GROWTH_MAX = 0.05
GROWTH_MAX_PYTHON = 0.15
"""Of instructions where service and client are in Python."""
GROWTH_MAX_OTHER_COMPILER = 0.25
"""Of instructions where another compiler or Python made them than those of the table."""
ROLES = ("leader", "follower", "client")
"""Of every phase but that of probes, which has one role."""
LOCKSTEP = [sys.executable, "-m", "tests.budget.lockstep"]
CALL = re.compile(r"^\d+\s+(\w+)\(")
MARK = re.compile(r'"/ordo-budget (begin|end|turn|rest) ?([^"]*)"')
FUNCTION = re.compile(r"^fn=\((\d+)\)(?: (.*))?$")
TURN = re.compile(r"turn_of_(?:python_)?(leader|follower|client)$")
TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)
COST = re.compile(r"^[+*-]?\d* ?(\d+)$")

Counts = dict[str, dict[str, Any]]
"""By phase and role."""


def message_count(phase: str) -> int:
    """Messages of a phase of either half, or probes."""
    if phase == SESSIONS_PHASE:
        return SESSION_COUNT * SESSION_MESSAGE_COUNT
    if phase == ASYNCIO_PHASE:
        return TASK_COUNT * TASK_REQUEST_COUNT
    return PROBE_COUNT if phase == PROBES_PHASE else PHASES[phase.partition(", ")[2]][0]


def roles_of(phase: str) -> set[str]:
    """Who does what is counted in a phase."""
    return {"probe"} if phase == PROBES_PHASE else set(ROLES)


def processes_of(role: str) -> int:
    return MEMBERS - 1 if role == "follower" else 1


def count_calls() -> Counts:
    """System calls of one message: `total` and by name. Raises RuntimeError where strace does not run."""
    with tempfile.TemporaryDirectory(prefix="ordo-budget-") as folder:
        path = Path(folder, "calls")
        _run(["strace", "-f", "-o", str(path), *LOCKSTEP])
        with path.open(errors="replace") as lines:
            return read_calls(lines)


def read_calls(lines: Iterable[str]) -> Counts:
    """What strace wrote, one line a call."""
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    phase = role = ""
    for line in lines:
        call = CALL.match(line)
        if call is None:
            continue
        mark = MARK.search(line)
        if mark is None:
            if phase and role:
                found[phase][role][call[1]] += 1
        elif mark[1] in ("turn", "rest"):
            role = mark[2]
        else:
            phase = mark[2] if mark[1] == "begin" else ""
    return {phase: {role: _per_message(calls, phase, role) for role, calls in roles.items()}
            for phase, roles in found.items()}  # fmt: skip


def _per_message(calls: Counter[str], phase: str, role: str) -> dict[str, float]:
    if phase == PROBES_PHASE:
        del calls["futex"]  # how often threads wait for each other is the machine's affair
    divisor = message_count(phase) * processes_of(role)
    named = {name: round(number / divisor, 4) for name, number in sorted(calls.items())}
    return {"total": round(calls.total() / divisor, 4)} | named


def count_instructions() -> Counts:
    """Instructions of one message. Raises RuntimeError where Valgrind does not run."""
    with tempfile.TemporaryDirectory(prefix="ordo-budget-") as folder:
        out = Path(folder, "out")
        options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        _run(["valgrind", *options, *LOCKSTEP])
        parts = [path.read_text(errors="replace") for path in sorted(Path(folder).glob("out.*"))]
    return dict(read_instructions(text) for text in parts)


def read_instructions(text: str) -> tuple[str, dict[str, Any]]:
    """A dump of Callgrind: its phase, and instructions of one message by role, callees included."""
    phase = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
    if phase is None:
        raise RuntimeError("Callgrind wrote a dump that the driver did not ask for")
    count = message_count(phase[1])
    if phase[1] == PROBES_PHASE:  # a thread of its own answers each
        return phase[1], {"probe": round(int(TOTALS.findall(text)[0]) / count)}
    costs: Counter[str] = Counter()
    names: dict[str, str] = {}
    role = ""
    for line in text.splitlines():
        function = FUNCTION.match(line.replace("cfn=", "fn=", 1) if line.startswith("cfn=") else line)
        if function is not None:
            name = names.setdefault(function[1], function[2] or "")
            if line.startswith("fn="):
                turn = TURN.search(name)
                role = turn[1] if turn else ""
        elif role:
            cost = COST.match(line)
            costs[role] += int(cost[1]) if cost else 0
    return phase[1], {role: round(cost / count / processes_of(role)) for role, cost in sorted(costs.items())}


def _run(command: list[str]) -> None:
    environment = dict(os.environ, PYTHONHASHSEED="0")
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {ended.returncode}: {ended.stderr[-2000:]}")


def made_with() -> dict[str, str]:
    """What instructions depend on besides the source."""
    compiler = subprocess.run(["cc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return {
        "machine": platform.machine(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "cython": version("cython"),
        "compiler": compiler.partition(".")[0].strip(),
    }


def find_growth(what: str, now: Counts, table: Counts, growth_max: float) -> list[str]:
    """A line for each phase and role that costs more than the table says, by more than `growth_max` of it."""
    lines = []
    for phase, roles in table.items():
        for role, was in roles.items():
            here = now[phase][role]
            before, after = (value["total"] if isinstance(value, dict) else value for value in (was, here))
            if after > before * (1 + growth_max):
                lines.append(
                    f"{what} of one message, {phase}, {role}: {after:g}, was {before:g}{_differences(was, here)}"
                )
    return lines


def _differences(was: Any, now: Any) -> str:
    if not isinstance(was, dict):
        return ""
    names = [name for name in sorted(was | now) if name != "total" and was.get(name, 0) != now.get(name, 0)]
    return "".join(f"; {name} {was.get(name, 0):g} -> {now.get(name, 0):g}" for name in names)


def main() -> None:
    table = {"made_with": made_with(), "system_calls": count_calls(), "instructions": count_instructions()}
    TABLE.write_text(json.dumps(table, indent=2) + "\n")
    print(TABLE.read_text())


if __name__ == "__main__":
    main()
