"""A member of a cluster as the helpers of its consensus module see it: what they ask of it, and what they did to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import ClusterAction
from ordo.cluster.wire.counters.counter_types import ControlToggle, ModuleState
from ordo.consensus.state.configuration import Configuration
from ordo.consensus.state.progress import Progress
from ordo.consensus.state.states import ElectionState
from ordo.runtime.agents.wake import ParkFlag
from ordo.runtime.native.counters import local_counter
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.sequencer.sequencer import Sequencer

TERM_ID = 7


def make_sequencer() -> Sequencer:
    """The Sequencer of member 0, which nobody is attached to."""
    flag = ParkFlag(local_counter(0))
    return Sequencer(Progress(0, [0], 500_000_000), 0, local_counter(0), flag, 50_000_000)


@dataclass
class Counters:
    """The counters that helpers read and write."""

    state: ModuleState = ModuleState.ACTIVE
    standby_snapshots: Any = None
    control_toggle: Any = field(default_factory=lambda: local_counter(int(ControlToggle.NEUTRAL)))
    service_position: Any = field(default_factory=local_counter)

    def set_state(self, state: ModuleState) -> None:
        self.state = state


@dataclass
class Log:
    """The leader's end of the log. `result` is what the next append returns instead of a position."""

    log_end_position: int = 1000
    commit_position: int = 1000
    result: int = 0
    actions: list[ClusterAction] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)

    def position_after(self, length_bytes: int) -> int:
        return self.log_end_position + length_bytes

    def append(self, record: bytes) -> int:
        if self.result < 0:
            return self.result
        found = codecs.decode(record)
        assert found is not None
        self.actions.append(ClusterAction(found[1].action))
        self.flags.append(found[1].flags)
        self.log_end_position = self.position_after(len(record))
        return self.log_end_position


@dataclass
class Core:
    """What consensus says and is told."""

    election_timeout_ns: int = 1000
    leader_member_id: int = 0
    is_transferring: bool = False
    can_transfer: bool = True
    termination_position: int = NULL_POSITION
    termination_is_complete: bool = False
    state: ElectionState = ElectionState.CLOSED
    configuration: Configuration = field(default_factory=lambda: Configuration((0, 1, 2), ()))
    untrusted_members: list[int] = field(default_factory=list)
    unknown_terms: list[int] = field(default_factory=list)
    told: list[tuple[Any, ...]] = field(default_factory=list)

    def transfer_leadership(self, target_id: int | None, end_position: int, now_ns: int) -> bool:
        self.told.append(("transfer", target_id, end_position))
        self.is_transferring = self.can_transfer
        return self.can_transfer

    def begin_termination(self, position: int, now_ns: int) -> None:
        self.told.append(("terminate", position))
        self.termination_position = position

    def acknowledge_termination(self, position: int, now_ns: int) -> None:
        self.told.append(("acknowledge", position))


@dataclass
class Host:
    """The member itself."""

    is_leader: bool = True
    has_ended: bool = False
    member_id: int = 0
    leadership_term_id: int = TERM_ID
    cluster_time: int = 5000
    is_ready: bool = True
    service_listens: bool = True
    updates: int = 0
    touched: int = 0
    terminated: list[int] = field(default_factory=list)

    def update_ingress(self) -> None:
        self.updates += 1

    def touch_sessions(self) -> None:
        self.touched += 1

    def is_ready_to_end(self, log_position: int) -> bool:
        return self.is_ready

    def terminate_service(self, log_position: int) -> bool:
        if self.service_listens:
            self.terminated.append(log_position)
        return self.service_listens
