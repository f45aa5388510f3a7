"""An order is reported done when it is done: what each makes of a member that did something else."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.admin import orders
from ordo.cluster.admin.member_details import HeldError
from ordo.cluster.monitoring.counter_values import NOT_THERE
from ordo.cluster.wire.counters.component_errors import SNAPSHOT_REFUSED
from ordo.cluster.wire.counters.counter_types import ControlToggle, CounterType, ModuleState, transfer_value
from ordo.cluster.wire.levels import PROTOCOL_LEVEL, SEQUENCE_LEVEL
from ordo.cluster.wire.succession import IS_OVER
from ordo.runtime.errors import ClusterError, ConfigurationError, OutcomeUnknownError

REASON = f"the service {SNAPSHOT_REFUSED}640: ValueError: no (ledger.py:12)"


class Leader:
    """A leader that does what a test says once its toggle is set, and lives for so many looks after that."""

    member_id = 0
    elsewhere = "try again"
    protocol_level = PROTOCOL_LEVEL

    def __init__(self, then: Callable[[Leader], None], looks: int = 1000) -> None:
        self.values: dict[int, int] = {
            CounterType.CONTROL_TOGGLE: ControlToggle.NEUTRAL,
            CounterType.SNAPSHOT_COUNT: 3,
            CounterType.MODULE_STATE: ModuleState.ACTIVE,
        }
        self.errors = [HeldError(1, 1, f"the service {SNAPSHOT_REFUSED}320: ValueError: that of before")]
        self.leader_id = 0
        self.asked: list[int] = []
        self._then = then
        self._looks = looks

    @property
    def counters(self) -> Leader:
        return self

    @property
    def notes(self) -> Leader:
        return self

    def value(self, counter_type: CounterType) -> int:
        return self.values.get(counter_type, NOT_THERE)

    def set_toggle(self, wanted: int, expected: int) -> int:
        self.values[CounterType.CONTROL_TOGGLE] = wanted
        self.asked.append(wanted)
        self._then(self)
        return expected

    def show(self, toggle: ControlToggle) -> None:
        self.values[CounterType.CONTROL_TOGGLE] = toggle

    def fail(self) -> None:
        self.errors.append(HeldError(1, 2, REASON))

    def list_errors(self) -> list[HeldError]:
        return self.errors

    def list_others(self) -> list[int]:
        return [1, 2]

    def ask(self, question: Any, values: Any, answer: Any, timeout_s: float) -> Any:
        return SimpleNamespace(leader_member_id=self.leader_id, protocol_level=self.protocol_level)

    def is_running(self) -> bool:
        self._looks -= 1
        return self._looks > 0


def snapshot_fails(leader: Leader) -> None:
    leader.fail()
    leader.show(ControlToggle.NEUTRAL)


def test_a_snapshot_that_the_service_could_not_take_is_no_success() -> None:
    with pytest.raises(
        ClusterError, match=r"no snapshot was taken: on member 0 .*640: ValueError: no \(ledger.py:12\)"
    ):
        orders.take_snapshot(Leader(snapshot_fails))  # type: ignore[arg-type]


def test_a_snapshot_that_failed_for_no_known_reason_is_no_success() -> None:
    with pytest.raises(ClusterError, match="does not say why; see `ordo errors`"):
        orders.take_snapshot(Leader(lambda leader: leader.show(ControlToggle.NEUTRAL)))  # type: ignore[arg-type]


def test_a_snapshot_that_the_leader_holds_is_taken() -> None:
    def takes(leader: Leader) -> None:
        leader.values[CounterType.SNAPSHOT_COUNT] += 1
        leader.show(ControlToggle.NEUTRAL)

    orders.take_snapshot(Leader(takes))  # type: ignore[arg-type]


def test_a_cluster_that_ended_without_its_snapshot_says_so() -> None:
    with pytest.raises(ClusterError, match=r"ended, but without its snapshot: on member 0 .*ValueError"):
        orders.shut_down(Leader(Leader.fail, looks=5))  # type: ignore[arg-type]


def test_a_cluster_that_ends_without_a_snapshot_by_order_is_told_nothing() -> None:
    leader = Leader(lambda leader: None, looks=5)
    assert orders.shut_down(leader, with_snapshot=False) == ""  # type: ignore[arg-type]


def test_a_cluster_whose_log_has_ended_ends_without_a_snapshot_and_says_so() -> None:
    for with_snapshot, told in ((True, IS_OVER), (False, "")):
        leader = Leader(lambda leader: None, looks=5)
        leader.show(ControlToggle.SUCCEEDED)
        assert orders.shut_down(leader, with_snapshot=with_snapshot) == told  # type: ignore[arg-type]
        assert leader.asked == [ControlToggle.ABORT]


def test_a_suspension_that_a_deposed_leader_had_not_committed_is_no_success() -> None:
    with pytest.raises(ClusterError, match="stopped leading before that was committed"):
        orders.suspend(Leader(lambda leader: leader.show(ControlToggle.INACTIVE)))  # type: ignore[arg-type]


def hands_over_to(leader_id: int) -> Callable[[Leader], None]:
    def then(leader: Leader) -> None:
        leader.leader_id = leader_id
        leader.show(ControlToggle.INACTIVE)

    return then


def test_a_transfer_says_who_leads() -> None:
    leader = Leader(hands_over_to(2))
    assert orders.transfer(leader, 2) == 2  # type: ignore[arg-type]
    assert orders.transfer(leader) == 2  # type: ignore[arg-type]
    assert leader.asked == [transfer_value(2), ControlToggle.TRANSFER]


def test_a_transfer_goes_only_to_another_member() -> None:
    for target in (0, 7):
        with pytest.raises(ConfigurationError, match=rf"--to {target}: must be another member than 0: \[1, 2\]"):
            orders.transfer(Leader(hands_over_to(2)), target)  # type: ignore[arg-type]


def test_a_transfer_to_a_member_that_does_not_lead_then_is_no_success() -> None:
    with pytest.raises(ClusterError, match="member 0 leads no more, but member 1 does, not 2"):
        orders.transfer(Leader(hands_over_to(1)), 2)  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError, match="no other was seen to lead in time"):
        orders.transfer(Leader(hands_over_to(NOT_THERE)), 2, timeout_s=0.1)  # type: ignore[arg-type]


def test_an_order_for_standbys_is_done_when_the_leader_has_written_it_into_its_log() -> None:
    leader: Any = Leader(lambda leader: leader.show(ControlToggle.NEUTRAL))
    orders.order_standby_snapshot(leader, 1)
    assert leader.asked == [ControlToggle.STANDBY_SNAPSHOT]
    falls: Any = Leader(lambda leader: leader.show(ControlToggle.INACTIVE))
    with pytest.raises(ClusterError, match="stopped leading meanwhile: give the order again"):
        orders.order_standby_snapshot(falls, 1)
    is_slow: Any = Leader(lambda leader: None)
    with pytest.raises(OutcomeUnknownError, match="did not take the order"):
        orders.order_standby_snapshot(is_slow, 0.01)


@pytest.mark.parametrize("level", [SEQUENCE_LEVEL - 1, -1])
def test_an_order_for_standbys_is_refused_that_the_log_cannot_have(level: int) -> None:
    leader: Any = Leader(lambda leader: None)
    leader.protocol_level = level
    with pytest.raises(ClusterError, match=rf"of protocol level {max(level, 0)}, but from level 6 on: update all"):
        orders.order_standby_snapshot(leader, 1)
    assert leader.asked == []
