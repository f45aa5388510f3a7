"""A message costs no more than it did: the budget, guarded without a clock.

When a count has grown and must: `make budget` writes the table anew; the commit says why.
"""

import json
from typing import Any

import pytest

from ordo.deploy.launcher import ROOT
from tests.budget.counts import (
    GROWTH_MAX,
    GROWTH_MAX_OTHER_COMPILER,
    GROWTH_MAX_PYTHON,
    ROLES,
    TABLE,
    Counts,
    count_calls,
    count_instructions,
    find_growth,
    made_with,
    read_calls,
    read_instructions,
    roles_of,
)
from tests.budget.lockstep import ASYNCIO_PHASE, HALVES, PHASES, SESSIONS_PHASE
from tests.budget.probes import PROBES_PHASE

ADVICE = "make it cheaper, or, where it must be so, run `make budget` and say why in the commit"

CYCLES_OF_A_CALL = 25_000
"""10 us: more than any of a probe's calls takes, the start of a thread included."""


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def demand_no_growth(what: str, now: Counts, table: dict[str, Any], growth_max: float) -> None:
    for phase, roles in now.items():
        assert set(roles) == roles_of(phase), f"{phase}: not every role was seen"
    assert set(now) == set(table)
    lines = find_growth(what, now, table, growth_max)
    assert not lines, "\n".join([*lines, ADVICE])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_a_message_makes_no_more_system_calls(table: dict[str, Any]) -> None:
    demand_no_growth("system calls", count_calls(), table["system_calls"], GROWTH_MAX)


@pytest.mark.thorough  # under valgrind; system calls are counted in each run
@pytest.mark.timeout(300)
def test_a_message_takes_no_more_instructions(table: dict[str, Any]) -> None:
    now, was = count_instructions(), table["instructions"]
    is_same = made_with() == table["made_with"]
    for native in (True, False):
        growth_max = (GROWTH_MAX if native else GROWTH_MAX_PYTHON) if is_same else GROWTH_MAX_OTHER_COMPILER
        here, there = ({phase: counts[phase] for phase in counts if phase.startswith("native") == native}
                       for counts in (now, was))  # fmt: skip
        demand_no_growth("instructions", here, there, growth_max)


def test_the_table_has_every_phase_and_role(table: dict[str, Any]) -> None:
    phases = {f"{half}, {phase}" for half in HALVES for phase in PHASES}
    phases |= {PROBES_PHASE, SESSIONS_PHASE, ASYNCIO_PHASE}
    for counts in (table["system_calls"], table["instructions"]):
        assert set(counts) == phases
        assert all(set(roles) == roles_of(phase) for phase, roles in counts.items())


@pytest.mark.parametrize(
    "phase",
    [
        "native, round trips",
        "native, window 100",
        SESSIONS_PHASE,
        "python, round trips",
        "python, window 100",
        "batches, window 100",
        "requests, round trips",
        "requests, window 100",
        ASYNCIO_PHASE,
    ],
)
def test_the_page_shows_the_table(phase: str, table: dict[str, Any]) -> None:
    """docs/PERFORMANCE.md, The budget: round trips by the message, what is on the way together by a thousand."""
    page = (ROOT / "docs" / "PERFORMANCE.md").read_text()
    totals = [table["system_calls"][phase][role]["total"] for role in ROLES]
    calls = [f"{total:.1f}" if phase.endswith("round trips") else f"{1000 * total:.0f}" for total in totals]
    instructions = [f"{table['instructions'][phase][role]:,}" for role in ROLES]
    for row in (calls, instructions):
        assert f" | {' | '.join(row)} |\n" in page


def test_a_probe_costs_less_than_a_millisecond(table: dict[str, Any]) -> None:
    """Of a core of 2.5 GHz: half of its cycles for instructions, one each, half for what the kernel does at each call;
    both were counted with the asking client, which is no part of the probe."""
    instructions = table["instructions"][PROBES_PHASE]["probe"]
    calls = table["system_calls"][PROBES_PHASE]["probe"]["total"]
    assert instructions <= 1_250_000
    assert calls * CYCLES_OF_A_CALL <= 1_250_000
    page = (ROOT / "docs" / "OPERATIONS.md").read_text()
    assert f"finds {round(instructions, -3):,} instructions and {calls:.0f} system calls" in " ".join(page.split())


def test_growth_beyond_the_bound_is_told_with_what_has_grown() -> None:
    table = {"native, round trips": {"leader": {"total": 7.0, "recvmmsg": 2.0}, "client": 1000}}
    now = {"native, round trips": {"leader": {"total": 8.0, "recvmmsg": 2.0, "pread64": 1.0}, "client": 1049}}
    assert find_growth("calls", now, table, 0.05) == [
        "calls of one message, native, round trips, leader: 8, was 7; pread64 0 -> 1"
    ]
    now["native, round trips"]["client"] = 1051
    assert len(find_growth("calls", now, table, 0.05)) == 2


def test_only_calls_of_a_turn_within_a_phase_count() -> None:
    count = PHASES["round trips"][0]
    mark = '7 access("/ordo-budget {}", F_OK) = -1 ENOENT (No such file or directory)'
    turn = [mark.format("turn follower"), "7 recvmmsg(3, ...) = 1", "7 +++ noise", mark.format("rest"), "7 poll() = 0"]
    lines = [*turn, mark.format("begin native, round trips"), *turn * count, mark.format("end native, round trips")]
    assert read_calls([*lines, *turn]) == {"native, round trips": {"follower": {"total": 0.5, "recvmmsg": 0.5}}}


def test_instructions_of_a_turn_are_its_own_and_those_of_what_it_calls() -> None:
    count = PHASES["round trips"][0]
    text = f"""desc: Trigger: Client Request: native, round trips
fn=(1) __pyx_pw_5tests_6budget_5turns_5turn_of_leader
10 {count}
+2 {count}
cfn=(2) work
calls=3 20
+1 {5 * count}
* {count}
fn=(2)
20 {5 * count}
fn=(3) __pyx_pw_5tests_6budget_5turns_7turn_of_follower
7 {4 * count}
fn=(1)
12 {2 * count}
"""
    assert read_instructions(text) == ("native, round trips", {"follower": 2, "leader": 10})
