"""Executes the committed records of a member's log, each kind by the part that it concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.module.state.module_snapshot import SnapshotPoint
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.runtime.native.cluster_time import time_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from ordo.cluster.module.client_parts import ClientParts
    from ordo.cluster.module.leader_duties import LeaderDuties
    from ordo.cluster.module.log.cluster_control import ClusterControl
    from ordo.cluster.module.log.disk_space_watch import RoomWatch
    from ordo.cluster.module.log.log_executor import Handler, LogRecord
    from ordo.cluster.module.log_rules import LogRules
    from ordo.cluster.module.snapshots.snapshot_schedule import SnapshotOrders
    from ordo.cluster.module.snapshots.snapshot_taker import SnapshotTaker
    from ordo.cluster.module.state.own_member import OwnMember
    from ordo.runtime.sbe import Message


class SnapshotStart:
    """Begins a snapshot at each ClusterActionRequest that asks for one."""

    def __init__(self, orders: SnapshotOrders, rules: LogRules, snapshots: SnapshotTaker, *, is_standby: bool) -> None:
        self._orders = orders
        self._rules = rules
        self._snapshots = snapshots
        self._is_standby = is_standby

    def begin(self, record: LogRecord) -> None:
        """Begin a snapshot of the state after the ClusterActionRequest that was just executed."""
        values = record.values
        is_copied = not self._is_standby and codecs.is_copy_order(values.action, values.flags)
        self._orders.note(record.position, time_ms(values.timestamp), is_copied=is_copied)
        app_version = self._rules.version_at(record.position)
        point = SnapshotPoint(
            record.position, values.leadership_term_id, app_version, self._rules.time.at(record.position)
        )
        self._snapshots.begin(point, values.timestamp, is_copied)


class RecordHandlers:
    """What executes each kind of record; `handlers` has them by the record's table."""

    def __init__(
        self,
        member: OwnMember,
        clients: ClientParts,
        control: ClusterControl,
        snapshot_start: SnapshotStart,
        room: RoomWatch,
        rules: LogRules,
        duties: LeaderDuties,
        on_configuration: Callable[[int], None],
    ) -> None:
        """Take the member's parts; `on_configuration` takes the position of a committed ConfigurationEvent."""
        self._member = member
        self._clients = clients
        self._control = control
        self._snapshot_start = snapshot_start
        self._room = room
        self._rules = rules
        self._duties = duties
        timers, messages = clients.services.timers, clients.services.messages
        self.handlers: dict[Message, Handler] = {
            codecs.SESSION_OPEN_EVENT: self._execute_open,
            codecs.SESSION_CLOSE_EVENT: self._execute_close,
            codecs.SESSION_MESSAGE_HEADER: lambda record: messages.execute(record.values.cluster_session_id),
            codecs.TIMER_EVENT: lambda record: timers.execute(record.values.correlation_id),
            codecs.CLUSTER_ACTION_REQUEST: self._execute_action,
            codecs.NEW_LEADERSHIP_TERM_EVENT: self._execute_new_term,
            ordo_codecs.CONFIGURATION_EVENT: lambda record: on_configuration(record.position),
            **rules.handlers,
        }

    def _execute_open(self, record: LogRecord) -> None:
        clients, member = self._clients, self._member
        session = clients.sessions.execute_open(record.values, record.position)
        if member.is_leader:
            clients.requests.on_opened(session, member, member.cluster_time)
            self._room.tell(session)

    def _execute_close(self, record: LogRecord) -> None:
        self._clients.sessions.execute_close(record.values.cluster_session_id)

    def _execute_action(self, record: LogRecord) -> None:
        if self._control.execute(record.values):
            self._snapshot_start.begin(record)

    def _execute_new_term(self, record: LogRecord) -> None:
        self._rules.identity.execute(record)
        self._clients.services.timers.begin(self._rules.time.at(record.position))
        self._duties.on_new_term(record.values.leadership_term_id)
