"""What an operator orders through the toggle of the leader (cluster-consensus.md §19)."""

from types import SimpleNamespace
from typing import Any

import pytest

from ordo.cluster.module.log.cluster_control import ClusterControl, ControlEffects
from ordo.cluster.module.state.termination import Termination
from ordo.cluster.module.state.transfer import LeadershipTransfer
from ordo.cluster.wire import codecs
from ordo.cluster.wire.codecs import ClusterAction
from ordo.cluster.wire.counters.counter_types import (
    SUCCEED_BY,
    ControlToggle,
    ModuleState,
    is_transfer,
    succeed_value,
    successor_of,
)
from ordo.cluster.wire.levels import COPY_LEVEL, SEQUENCE_LEVEL, SUCCESSION_LEVEL, level_of
from ordo.runtime.native.counters import local_counter
from tests.cluster.module.member import Core, Counters, Host, Log


class Member:
    def __init__(self) -> None:
        self.host, self.core, self.log, self.counters = Host(), Core(), Log(), Counters()
        self.snapshots: list[Any] = []
        self.dismissed: list[bool] = []
        self.ended_reads: list[bool] = []
        self.level = SUCCESSION_LEVEL
        host, core, log, counters = self._parts()
        self.transfer = LeadershipTransfer(host, core, log, counters, host.update_ingress)
        self.termination = Termination(
            host, core, counters, is_ready=host.is_ready_to_end, terminate_services=host.terminate_service
        )
        self.control = ClusterControl(
            host,
            core,
            log,
            counters,
            self.transfer,
            self.termination,
            effects=ControlEffects(
                host.update_ingress,
                host.touch_sessions,
                lambda: self.dismissed.append(True),
                lambda: self.ended_reads.append(True),
            ),
            newest_level=lambda: self.level,
        )

    def _parts(self) -> Any:
        return self.host, self.core, self.log, self.counters

    def order(self, toggle: int) -> ControlToggle:
        """Sets the toggle, lets the leader look at it once; what it shows then."""
        self.counters.control_toggle.set(int(toggle))
        self.control.poll(0)
        return ControlToggle(self.counters.control_toggle.value)

    def execute(self, action: ClusterAction, flags: int = 0) -> None:
        values: Any = SimpleNamespace(action=action, flags=flags)
        if self.control.execute(values):
            self.snapshots.append(values)


@pytest.fixture
def member() -> Member:
    return Member()


def test_a_suspension_holds_at_once_and_shows_until_it_is_over(member: Member) -> None:
    assert member.order(ControlToggle.SUSPEND) == ControlToggle.SUSPEND
    assert member.log.actions == [ClusterAction.SUSPEND]
    assert member.control.is_suspended
    assert member.host.updates == 1
    assert member.counters.state == ModuleState.ACTIVE, "who ordered it is told when it is committed"
    member.control.poll(0)
    assert member.log.actions == [ClusterAction.SUSPEND], "once"
    member.execute(ClusterAction.SUSPEND)
    assert member.counters.state == ModuleState.SUSPENDED
    assert member.order(ControlToggle.RESUME) == ControlToggle.NEUTRAL
    assert member.control.is_suspended, "until the order to go on is committed"
    member.execute(ClusterAction.RESUME)
    assert not member.control.is_suspended
    assert member.host.touched == 2, "nobody has listened to the sessions meanwhile"


def test_a_suspension_that_was_never_committed_is_forgotten_with_the_leadership(member: Member) -> None:
    member.order(ControlToggle.SUSPEND)
    member.control.lose_leadership()
    assert not member.control.is_suspended
    assert member.counters.control_toggle.value == ControlToggle.INACTIVE
    member.control.lead()
    assert member.counters.control_toggle.value == ControlToggle.NEUTRAL


def test_a_committed_suspension_outlives_the_leader(member: Member) -> None:
    member.order(ControlToggle.SUSPEND)
    member.execute(ClusterAction.SUSPEND)
    member.control.lose_leadership()
    assert member.control.is_suspended
    member.control.lead()
    assert member.counters.control_toggle.value == ControlToggle.SUSPEND, "only the order to go on is taken"


def test_a_snapshot_is_asked_for_once_until_it_is_done(member: Member) -> None:
    assert member.control.ask_snapshot()
    assert not member.control.ask_snapshot()
    for _ in range(3):
        member.control.poll(0)
    assert member.log.actions == [ClusterAction.SNAPSHOT]
    member.execute(ClusterAction.SNAPSHOT)
    assert len(member.snapshots) == 1
    member.control.snapshot_done(member.log.log_end_position - 96)
    assert member.counters.control_toggle.value == ControlToggle.SNAPSHOT, "that was an earlier one"
    member.control.snapshot_done(member.log.log_end_position)
    assert member.counters.control_toggle.value == ControlToggle.NEUTRAL
    assert member.control.ask_snapshot()


def test_a_snapshot_of_which_the_record_was_lost_may_be_asked_for_again(member: Member) -> None:
    member.order(ControlToggle.SNAPSHOT)
    member.control.lose_leadership()
    member.control.lead()
    member.order(ControlToggle.SNAPSHOT)
    assert member.log.actions == [ClusterAction.SNAPSHOT] * 2


def test_a_standby_snapshot_is_not_the_members_business(member: Member) -> None:
    member.execute(ClusterAction.SNAPSHOT, flags=1)
    assert member.snapshots == []


def test_a_standby_takes_its_primarys_snapshots_and_those_of_standbys(member: Member) -> None:
    ordered = member.counters.standby_snapshots = local_counter(0)
    for flags, count in ((0, 0), (codecs.OF_STANDBYS, 1), (codecs.NO_FLAGS, 1), (codecs.FOR_MEMBERS, 2)):
        member.execute(ClusterAction.SNAPSHOT, flags=flags)
        assert ordered.value == count
    assert [one.flags for one in member.snapshots] == [0, codecs.OF_STANDBYS, codecs.NO_FLAGS, codecs.FOR_MEMBERS]
    member.execute(ClusterAction.SNAPSHOT, flags=2)
    member.execute(ClusterAction.RESUME, flags=codecs.OF_STANDBYS)
    assert len(member.snapshots) == 4


def test_an_order_for_standbys_is_in_the_log_at_once_and_keeps_no_other_order_out(member: Member) -> None:
    member.log.result = -2
    assert member.order(ControlToggle.STANDBY_SNAPSHOT) == ControlToggle.STANDBY_SNAPSHOT, "the log is full"
    member.log.result = 0
    assert member.order(ControlToggle.STANDBY_SNAPSHOT) == ControlToggle.NEUTRAL
    assert (member.log.actions, member.log.flags) == ([ClusterAction.SNAPSHOT], [codecs.OF_STANDBYS])
    assert member.control.ask_snapshot()


def test_a_snapshot_that_members_copy_is_ordered_once_until_it_was_executed(member: Member) -> None:
    member.log.result = -2
    assert not member.control.ask_copied(), "the log is full"
    member.log.result = 0
    assert member.control.ask_copied() and not member.control.ask_copied()
    assert (member.log.actions, member.log.flags) == ([ClusterAction.SNAPSHOT], [codecs.FOR_MEMBERS])
    position = member.log.log_end_position
    member.control.snapshot_done(position - 1)
    assert not member.control.ask_copied()
    member.control.snapshot_done(position)
    assert member.control.ask_copied()
    member.control.lose_leadership()
    member.control.lead()
    assert member.control.ask_copied()


def test_a_snapshot_that_members_copy_waits_for_what_else_was_ordered(member: Member) -> None:
    assert member.control.ask_snapshot() and not member.control.ask_copied()
    assert member.log.actions == []


def test_members_note_their_state_where_they_copy_a_snapshot(member: Member) -> None:
    member.execute(ClusterAction.SNAPSHOT, flags=codecs.FOR_MEMBERS)
    assert [one.flags for one in member.snapshots] == [codecs.FOR_MEMBERS]
    assert level_of(codecs.CLUSTER_ACTION_REQUEST, member.snapshots[0]) == COPY_LEVEL


def test_below_the_level_of_numbers_standbys_take_no_snapshots_of_their_own(member: Member) -> None:
    """It would hold none, so a standby that starts with it would number messages otherwise than the members."""
    member.level = SEQUENCE_LEVEL - 1
    assert member.order(ControlToggle.STANDBY_SNAPSHOT) == ControlToggle.NEUTRAL
    assert member.log.actions == []


@pytest.mark.parametrize("order", [8, 900, SUCCEED_BY, ControlToggle.RESUME, ControlToggle.SUCCEEDED])
def test_an_order_that_nobody_takes_does_not_stand_in_front_of_others(member: Member, order: int) -> None:
    """No order was taken any more, nor a snapshot due."""
    assert member.order(order) == ControlToggle.NEUTRAL
    assert member.log.actions == []
    assert member.control.ask_snapshot()


def test_no_order_at_all_is_left_as_it_is(member: Member) -> None:
    assert member.order(ControlToggle.INACTIVE) == ControlToggle.INACTIVE


def test_shutdown_ends_behind_a_snapshot_and_abort_at_the_commit_position(member: Member) -> None:
    member.order(ControlToggle.SHUTDOWN)
    assert member.log.actions == [ClusterAction.SNAPSHOT]
    assert member.core.told == [("terminate", member.log.log_end_position)]
    other = Member()
    other.order(ControlToggle.ABORT)
    assert (other.log.actions, other.core.told) == ([], [("terminate", 1000)])


def test_a_full_log_leaves_the_order_for_the_next_tick(member: Member) -> None:
    member.log.result = -2
    assert member.order(ControlToggle.SHUTDOWN) == ControlToggle.SHUTDOWN
    assert member.core.told == []
    member.log.result = 0
    member.control.poll(0)
    assert member.core.told == [("terminate", member.log.log_end_position)]


@pytest.mark.parametrize("state", [ModuleState.SNAPSHOT, ModuleState.TERMINATING, ModuleState.SUSPENDED])
def test_a_cluster_that_is_busy_takes_no_other_order(member: Member, state: ModuleState) -> None:
    member.counters.set_state(state)
    member.order(ControlToggle.SHUTDOWN)
    assert member.log.actions == []


def test_nothing_is_ordered_while_the_leadership_is_handed_over(member: Member) -> None:
    member.order(ControlToggle.TRANSFER)
    assert member.transfer.is_under_way
    member.order(ControlToggle.SNAPSHOT)
    assert member.log.actions == []


# -- the end of the log for a standby ----------------------------------------------------------------------------------

NUMBER = 12345


def suspended() -> Member:
    made = Member()
    made.order(ControlToggle.SUSPEND)
    made.execute(ClusterAction.SUSPEND)
    return made


def test_an_order_names_a_member_or_a_standby_and_never_both() -> None:
    assert successor_of(succeed_value(NUMBER)) == NUMBER and not is_transfer(succeed_value(NUMBER))
    assert successor_of(1 << 40) == 0 == successor_of((1 << 40) + (1 << 31)), "numbers are positive, in 31 bits"


def test_a_log_that_has_ended_takes_no_order_but_to_end_whoever_leads() -> None:
    member = suspended()
    assert member.order(succeed_value(NUMBER)) == ControlToggle.INACTIVE, "nothing else, until it is committed"
    assert member.log.actions == [ClusterAction.SUSPEND] * 2 and member.control.successor == 0
    assert member.control.is_log_over, "no change of the members comes behind it"
    member.execute(ClusterAction.SUSPEND, flags=NUMBER)
    assert member.control.successor == NUMBER and member.counters.control_toggle.value == ControlToggle.SUCCEEDED
    assert member.ended_reads, "what the standby has taken since is not known here"
    for order in (ControlToggle.RESUME, ControlToggle.SNAPSHOT, ControlToggle.SHUTDOWN, succeed_value(7)):
        assert member.order(order) == ControlToggle.SUCCEEDED
    member.control.lose_leadership()
    member.control.lead()
    assert member.counters.control_toggle.value == ControlToggle.SUCCEEDED and member.control.is_suspended
    assert member.control.is_log_over
    assert member.log.actions == [ClusterAction.SUSPEND] * 2 and member.core.told == []
    member.order(ControlToggle.ABORT)
    member.order(ControlToggle.ABORT)
    assert member.dismissed and member.core.told[0] == ("terminate", member.log.commit_position)


def test_an_end_that_was_never_committed_is_forgotten_with_the_leadership() -> None:
    member = suspended()
    member.order(succeed_value(NUMBER))
    member.control.lose_leadership()
    member.control.lead()
    assert member.counters.control_toggle.value == ControlToggle.SUSPEND, "it may go on"
    assert not member.control.is_log_over
    assert member.order(ControlToggle.RESUME) == ControlToggle.NEUTRAL


def test_only_a_suspended_log_ends_that_all_members_can_read() -> None:
    member = Member()
    assert member.order(succeed_value(NUMBER)) == ControlToggle.NEUTRAL and member.log.actions == []
    member = suspended()
    member.level = SUCCESSION_LEVEL - 1
    assert member.order(succeed_value(NUMBER)) == ControlToggle.SUSPEND and len(member.log.actions) == 1
    member.level, member.log.result = SUCCESSION_LEVEL, -2
    assert successor_of(member.counters.control_toggle.value) == 0


def test_the_new_cluster_takes_messages() -> None:
    member = suspended()
    member.execute(ClusterAction.SUSPEND, flags=NUMBER)
    member.execute(ClusterAction.RESUME)
    assert member.control.successor == 0 and not member.control.is_suspended and not member.control.is_log_over


def test_the_record_needs_a_level() -> None:
    def level(flags: int) -> int:
        return level_of(codecs.CLUSTER_ACTION_REQUEST, SimpleNamespace(action=ClusterAction.SUSPEND, flags=flags))

    assert (level(NUMBER), level(0), level(-(1 << 31))) == (SUCCESSION_LEVEL, 0, 0)
