"""Faults of every kind at random moments, on members drawn at random; the schedule follows from a seed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.deploy.launcher import ROOT
from tests.cluster.integration.agreement import counter_of
from tests.faults.accidents import KINDS_OF_FOLDERS, Accidents, Steps
from tests.faults.lab import Judgement, Lab
from tests.faults.neighbours import KINDS_OF_NEIGHBOURS, Neighbours

GAP_MEAN_S = 0.8
DURATIONS_S = (0.1, 0.4, 1.0, 2.5)
KINDS_WITHOUT_ROOT = ("kill", "kill", "stop", "pause", "pause container", "restart all", "snapshot", "transfer")
KINDS_OF_NETWORKS = ("isolate", "deaf", "mute", "split", "ring", "loss", "loss at one")
KINDS_OF_DISKS = ("full disk", "frozen disk")
KINDS_OF_LOGS = ("full log",)
KINDS_ALONE = (*KINDS_OF_FOLDERS, *KINDS_OF_NEIGHBOURS)
"""These begin once everything else is over, and nothing else begins before their end."""


class Fault(NamedTuple):
    """One line of a schedule; times in seconds since its beginning. `member` -1: whoever leads then."""

    at_s: float
    kind: str
    member: int
    duration_s: float
    number: int

    def __str__(self) -> str:
        whom = "the leader" if self.member < 0 else f"member {self.member}"
        return f"{self.at_s:6.2f} s: {self.kind} at {whom} for {self.duration_s} s"


def draw_schedule(seed: int, duration_s: float, member_count: int, kinds: Sequence[str]) -> list[Fault]:
    """A third of the faults are aimed at the leader."""
    generator = Random(f"nemesis {seed}")
    chosen = generator.sample(kinds, generator.randint(2, len(kinds)))
    schedule, at_s = [], 0.0
    while (at_s := at_s + generator.expovariate(1 / GAP_MEAN_S)) < duration_s:
        member = -1 if generator.random() < 1 / 3 else generator.randrange(member_count)
        kind, lasting_s = generator.choice(chosen), generator.choice(DURATIONS_S)
        schedule.append(Fault(round(at_s, 2), kind, member, lasting_s, generator.randrange(1, 40)))
    return schedule


def with_all(schedule: Sequence[Fault], seed: int, kinds: Sequence[str], member_count: int) -> list[Fault]:
    """The schedule with one fault of each of these kinds besides, in an order and at moments drawn from the seed."""
    generator = Random(f"nemesis {seed} besides")
    besides = [
        Fault(
            round(generator.uniform(0, schedule[-1].at_s), 2),
            kind,
            generator.randrange(member_count),
            generator.choice(DURATIONS_S),
            generator.randrange(1, 40),
        )
        for kind in kinds
    ]
    return sorted([*schedule, *besides])


class Nemesis:
    """`step` begins what is due and ends what has lasted; `finish` ends everything.

    A schedule stands still while one of KINDS_ALONE goes through its steps.
    """

    def __init__(self, lab: Lab, schedule: Sequence[Fault]) -> None:
        self.lab = lab
        self.begun: list[str] = []
        self.lines_dropped = 0
        self.accidents = Accidents(lab)
        self.neighbours = Neighbours(lab, self.accidents)
        self._steps: Steps | None = None
        self._alone_since_s = 0.0
        self._stood_s = 0.0
        self._waiting = list(schedule)
        self._lasting: list[tuple[float, Callable[[], None]]] = []
        self._busy: set[int] = set()
        self._commands: list[subprocess.Popen[bytes]] = []
        self._began_s = time.monotonic()

    @property
    def is_through(self) -> bool:
        return not self._waiting and not self._lasting and self._steps is None

    def step(self) -> None:
        if self._steps is not None:
            self._go_on(self._steps)
            return
        now_s = time.monotonic() - self._began_s - self._stood_s
        for due in [one for one in self._lasting if one[0] <= now_s]:
            self._lasting.remove(due)
            due[1]()
        if not self._waiting or self._waiting[0].at_s > now_s:
            return
        if self._waiting[0].kind not in KINDS_ALONE:
            self._begin(self._waiting.pop(0), now_s)
        elif not self._lasting:
            self._begin_alone(self._waiting.pop(0), now_s)

    def _begin_alone(self, fault: Fault, now_s: float) -> None:
        member_id = self._whom(fault)
        self.begun.append(f"{now_s:6.2f} s: {fault.kind} at {member_id}")
        if fault.kind in KINDS_OF_NEIGHBOURS:
            self._steps = self.neighbours.begin(fault.kind)
        else:
            self._steps = self.accidents.begin(fault.kind, member_id, fault.number)
        self._alone_since_s = time.monotonic()

    def _go_on(self, steps: Steps) -> None:
        for _ in steps:
            return
        self._steps = None
        took_s = time.monotonic() - self._alone_since_s
        self._stood_s += took_s
        self.accidents.seen[-1] += f" ({took_s:.1f} s)"

    def finish(self) -> None:
        for _, end in self._lasting:
            end()
        self._lasting.clear()
        self.neighbours.close()
        for command in self._commands:
            command.wait(30)

    def _whom(self, fault: Fault) -> int:
        leader = self.lab.cluster.leader()
        return fault.member if fault.member >= 0 else (0 if leader is None else leader)

    def _begin(self, fault: Fault, now_s: float) -> None:
        member_id = self._whom(fault)
        begin = getattr(self, "_begin_" + fault.kind.replace(" ", "_"))
        end = begin(member_id, fault.number)
        if end is not None:
            self.begun.append(f"{now_s:6.2f} s: {fault.kind} at {member_id} for {fault.duration_s} s")
            self._lasting.append((now_s + fault.duration_s, end))

    def _hold(self, member_id: int, end: Callable[[], None]) -> Callable[[], None]:
        """A member suffers from one fault of its process or disk at a time."""
        self._busy.add(member_id)

        def release() -> None:
            self._busy.discard(member_id)
            end()

        return release

    def _is_well(self, member_id: int) -> bool:
        return member_id not in self._busy and self.lab.cluster.is_running(member_id)

    # Processes

    def _begin_kill(self, member_id: int, number: int) -> Callable[[], None] | None:
        if not self._is_well(member_id):
            return None
        self.lab.kill(member_id)
        return self._hold(member_id, lambda: self.lab.start(member_id))

    def _begin_restart_all(self, member_id: int, number: int) -> Callable[[], None] | None:
        """All are killed at once, with what they had in their hands."""
        chosen = [one for one in self.lab.cluster.member_ids if self._is_well(one)]
        ends = [end for one in chosen if (end := self._begin_kill(one, number)) is not None]

        def end_all() -> None:
            for end in ends:
                end()

        return end_all

    def _begin_stop(self, member_id: int, number: int) -> Callable[[], None] | None:
        """Stops a node in good order: it hands its leadership over first."""
        if not self._is_well(member_id):
            return None
        self.lab.may_end.add(member_id)
        self.lab.cluster.send_signal(member_id, signal.SIGTERM)

        def end() -> None:
            self.lab.cluster.restart(member_id)
            self.lab.may_end.discard(member_id)

        return self._hold(member_id, end)

    def _begin_pause(self, member_id: int, number: int) -> Callable[[], None] | None:
        if not self._is_well(member_id):
            return None
        self.lab.pause(member_id)
        return self._hold(member_id, lambda: self.lab.go_on(member_id))

    def _begin_pause_container(self, member_id: int, number: int) -> Callable[[], None] | None:
        pid = self.lab.container_pid(member_id)
        if pid is None or not self._is_well(member_id):
            return None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

        def end() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

        return self._hold(member_id, end)

    # Orders of an operator

    def _begin_snapshot(self, member_id: int, number: int) -> Callable[[], None]:
        return self._order("snapshot", member_id)

    def _begin_transfer(self, member_id: int, number: int) -> Callable[[], None]:
        return self._order("transfer", member_id)

    def _order(self, word: str, member_id: int) -> Callable[[], None]:
        """Nobody waits for it, and it may fail."""
        command = [sys.executable, "-m", "ordo.cli", "cluster", word]
        command += ["--config", str(self.lab.cluster.config_path(member_id))]
        nowhere = subprocess.DEVNULL
        self._commands.append(subprocess.Popen(command, cwd=ROOT, stdin=nowhere, stdout=nowhere, stderr=nowhere))
        return lambda: None

    # The network: the last fault counts, and any end heals everything

    def _begin_isolate(self, member_id: int, number: int) -> Callable[[], None]:
        """No other member hears it, and it hears none; clients do, half of the time."""
        others = [one for one in self.lab.network.hosts if one != member_id]
        self.lab.network.partition([[member_id], others if number % 2 else others[:-1]])
        return self.lab.network.heal

    def _begin_deaf(self, member_id: int, number: int) -> Callable[[], None]:
        for other in self.lab.cluster.member_ids:
            if other != member_id:
                self.lab.network.block(other, member_id)
        return self.lab.network.heal

    def _begin_mute(self, member_id: int, number: int) -> Callable[[], None]:
        for other in self.lab.cluster.member_ids:
            if other != member_id:
                self.lab.network.block(member_id, other)
        return self.lab.network.heal

    def _begin_split(self, member_id: int, number: int) -> Callable[[], None]:
        """Two groups; clients reach both."""
        members = Random(number).sample(self.lab.cluster.member_ids, len(self.lab.cluster.member_ids))
        cut = number % (len(members) - 1) + 1
        self.lab.network.partition([members[:cut], members[cut:]])
        return self.lab.network.heal

    def _begin_ring(self, member_id: int, number: int) -> Callable[[], None]:
        """Each member hears only its neighbours; of three, two do not hear each other."""
        ids = self.lab.cluster.member_ids
        apart = [(a, b) for a in ids for b in ids if a != b and (abs(a - b) not in (1, len(ids) - 1))]
        for a, b in apart or [(member_id, (member_id + 1) % len(ids)), ((member_id + 1) % len(ids), member_id)]:
            self.lab.network.block(a, b)
        return self.lab.network.heal

    def _begin_loss(self, member_id: int, number: int) -> Callable[[], None]:
        self.lab.network.lose(number)
        return self.lab.network.heal

    def _begin_loss_at_one(self, member_id: int, number: int) -> Callable[[], None]:
        self.lab.network.lose(min(2 * number, 60), [member_id])
        return self.lab.network.heal

    # Disks

    def _begin_full_disk(self, member_id: int, number: int) -> Callable[[], None] | None:
        """A member takes less while it has no room, and goes on when it has."""
        if not self._is_well(member_id) or member_id not in self.lab.disks:
            return None
        self.lab.fill_disk(member_id)
        return self._hold(member_id, lambda: self.lab.make_room(member_id))

    def _begin_frozen_disk(self, member_id: int, number: int) -> Callable[[], None] | None:
        if not self._is_well(member_id) or not (disk := self.lab.disks.get(member_id)) or not disk.can_freeze:
            return None
        self.lab.disks[member_id].freeze()
        return self._hold(member_id, self.lab.disks[member_id].thaw)

    def _begin_full_log(self, member_id: int, number: int) -> Callable[[], None] | None:
        """The member has something to say meanwhile, and goes on without its log."""
        if member_id not in self.lab.log_disks:
            return None
        before = counter_of(self.lab.cluster, member_id, CounterType.LOG_LINES_DROPPED)
        self.lab.log_disks[member_id].fill_to_the_last()
        self.lab.ask_for_lines()

        def end() -> None:
            dropped = counter_of(self.lab.cluster, member_id, CounterType.LOG_LINES_DROPPED)
            self.lines_dropped += max(0, dropped - max(0, before))
            self.lab.log_disks[member_id].make_room()

        return end


class Verdict(NamedTuple):
    """What came of a schedule that was brought, as it stands in build/nightly/verdicts.txt."""

    faults: int
    accidents: int
    lines_dropped: int
    recovered_s: float
    judged: Judgement

    def __str__(self) -> str:
        return (
            f"{self.faults} faults and {self.accidents} accidents: {self.judged.operations} operations linearizable "
            f"({self.judged.asked}), {self.judged.answers} answers as the log has them, "
            f"{self.lines_dropped} lines of logs dropped; "
            f"all were answered {self.recovered_s:.1f} s after the last fault"
        )


def bring(lab: Lab, schedule: Sequence[Fault]) -> Verdict:
    """Brings the faults of a schedule over a cluster under load, and demands what must hold afterwards."""
    nemesis = Nemesis(lab, schedule)
    try:
        alone = sum(fault.kind in KINDS_ALONE for fault in schedule)
        limit_s = 60 + 2 * schedule[-1].at_s + 60 * alone
        lab.run_until(lambda: nemesis.is_through, "the end of the schedule", limit_s, also=nemesis.step)
        recovered_s = lab.settle()
        nemesis.finish()
        judged = lab.demand_everything()
    except BaseException:
        print("\n".join(["faults:", *nemesis.begun, *nemesis.accidents.seen]))
        nemesis.finish()
        raise
    verdict = Verdict(len(nemesis.begun) - alone, alone, nemesis.lines_dropped, recovered_s, judged)
    print("\n".join([*nemesis.accidents.seen, str(verdict)]))
    return verdict
