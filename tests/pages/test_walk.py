"""The walk of one message on docs/ARCHITECTURE.md, followed through the sources.

tests/cluster/integration/test_tracing.py follows it through a running cluster.
"""

from __future__ import annotations

import re

from ordo.bench.waterfall import MOMENTS
from tests.pages.walk import Step, read_walk
from tools.source import ROOT, cython_functions

DUTY_CYCLE = {
    "transport/driver/receiving/receiver.pyx": "driver.receive_work",
    "sequencer/sequencer.pyx": "sequencer.poll_ingress",
    "transport/driver/sending/sender.pyx": "driver.conduct_and_send_work",
    "archive/recorder.pyx": "self.archive.record_work",
    "consensus/state/progress.pyx": "self._update_positions",
    "cluster/container/streams/loop.pyx": "container.cycle",
}
"""What of the duty cycle of a leader does its steps, by the file that a step is known by."""


def bodies_of(file: str, name: str) -> list[str]:
    """The bodies of the functions of this name in a file."""
    lines = (ROOT / file).read_text().splitlines()
    found = [one for one in cython_functions(lines) if one.name == name]
    return ["\n".join(lines[one.body_first - 1 : one.last]) for one in found]


def test_each_function_of_a_step_is_called_by_one_before_it() -> None:
    walk = read_walk()
    assert len(walk) > 10 and all(step.functions for step in walk)
    for step in walk:
        reached = ""
        for index, (file, name) in enumerate(step.functions):
            bodies = bodies_of(file, name)
            assert bodies, f"{file} has no function {name}: {step.text}"
            called = re.search(rf"(?:\.|\b){name}\(", reached)
            assert called or index == 0, f"nothing before it calls {name} of {file}: {step.text}"
            reached += "\n".join(bodies)


def test_a_duty_cycle_does_the_steps_of_a_leader_in_the_order_of_the_walk() -> None:
    """Each layer is passed once: what a message passes in one cycle goes down the list of calls, never back."""
    (cycle,) = bodies_of("cluster/node/cycle.pyx", "do_work")
    calls = [call for step in read_walk() if step.process in ("leader", "all") if (call := call_of(step))]
    assert sorted(set(calls)) == sorted(DUTY_CYCLE.values())
    passed = [cycle.index(f"{call}(") for call in calls]
    assert passed == sorted(passed), calls


def call_of(step: Step) -> str | None:
    """What of the duty cycle does a step: the last of its files that the cycle has a call for."""
    found = [DUTY_CYCLE[file] for file, _ in step.functions if file in DUTY_CYCLE]
    return found[-1] if found else None


def test_the_walk_has_the_moments_of_a_trace_in_their_order() -> None:
    moments = [step.moment for step in read_walk() if step.moment]
    assert moments == [one.label for one in MOMENTS if one.label != "in the leader's log"], "that may be later"
