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

from ordo.deploy.launcher import ROOT
from tests.faults.lab import Lab

GAP_MEAN_S = 0.8
DURATIONS_S = (0.1, 0.4, 1.0, 2.5)
KINDS_WITHOUT_ROOT = ("kill", "kill", "stop", "pause", "pause container", "restart all", "snapshot", "transfer")
KINDS_OF_NETWORKS = ("isolate", "deaf", "mute", "split", "ring", "loss", "loss at one")
KINDS_OF_DISKS = ("full disk", "frozen disk")


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


class Nemesis:
    """`step` begins what is due and ends what has lasted; `finish` ends everything."""

    def __init__(self, lab: Lab, schedule: Sequence[Fault]) -> None:
        self.lab = lab
        self.begun: list[str] = []
        self._waiting = list(schedule)
        self._lasting: list[tuple[float, Callable[[], None]]] = []
        self._busy: set[int] = set()
        self._commands: list[subprocess.Popen[bytes]] = []
        self._began_s = time.monotonic()

    def step(self) -> None:
        now_s = time.monotonic() - self._began_s
        for due in [one for one in self._lasting if one[0] <= now_s]:
            self._lasting.remove(due)
            due[1]()
        if self._waiting and self._waiting[0].at_s <= now_s:
            self._begin(self._waiting.pop(0), now_s)

    def finish(self) -> None:
        for _, end in self._lasting:
            end()
        self._lasting.clear()
        for command in self._commands:
            command.wait(30)

    def _begin(self, fault: Fault, now_s: float) -> None:
        leader = self.lab.cluster.leader()
        member_id = fault.member if fault.member >= 0 else (0 if leader is None else leader)
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
        if not self._is_well(member_id) or member_id not in self.lab.disks:
            return None
        self.lab.disks[member_id].freeze()
        return self._hold(member_id, self.lab.disks[member_id].thaw)


def bring(lab: Lab, schedule: Sequence[Fault]) -> None:
    """Brings the faults of a schedule over a cluster under load, and demands what must hold afterwards."""
    nemesis = Nemesis(lab, schedule)
    try:
        lab.run(schedule[-1].at_s + 0.5, also=nemesis.step)
        nemesis.finish()
        recovered_s = lab.settle()
        lab.demand_everything()
        print(f"answered {recovered_s:.1f} s after the last of {len(nemesis.begun)} faults")
    except BaseException:
        print("\n".join(["faults:", *nemesis.begun]))
        nemesis.finish()
        raise
