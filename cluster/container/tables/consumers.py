"""Durable consumers in the container: executes their commands, informs members, and reports which log they need.

It also keeps what instances of applications and canaries report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.cluster.container.tables.consumer_table import ConsumerTable, Notice
from ordo.cluster.container.tables.difference_table import DifferenceTable
from ordo.cluster.container.tables.instance_table import InstanceTable
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.sessions.consumer_codec import (
    CommandKind,
    ConsumerCommand,
    ConsumerStatus,
    decode_command,
    encode_answer,
    text_answer,
)
from ordo.cluster.wire.sessions.difference_codec import decode_difference
from ordo.cluster.wire.sessions.instance_codec import decode_report
from ordo.runtime.native.cluster_time import time_ms
from ordo.runtime.native.sentinels import NULL_VALUE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ordo.cluster.container.streams.control import ContainerControl
    from ordo.cluster.container.streams.loop import ContainerLoop
    from ordo.runtime.sbe import Message

HOLD_INTERVAL_NS = 1_000_000_000


class ContainerConsumers:
    """The consumers of one container. `work` once a tick."""

    def __init__(self, loop: ContainerLoop, control: ContainerControl) -> None:
        self._loop = loop
        self._control = control
        self.table = ConsumerTable()
        self.instances = InstanceTable()
        self.differences = DifferenceTable()
        self._told_position: int | None = None
        self._hold_due_ns = 0
        self.handlers: Mapping[Message, Callable[[bytes, int], None]] = {
            ordo_codecs.CONSUMER_COMMAND: self.on_command,
            ordo_codecs.APP_REPORT: self.on_report,
            ordo_codecs.APP_DIFFERENCE: self.on_difference,
        }
        """What executes each kind of record, given all of it and the position after it."""

    def on_command(self, record: bytes, position: int) -> None:
        """Execute a ConsumerCommand. One that makes no sense, or is of a session that is closed, changes nothing."""
        command = decode_command(record)
        if command is None:
            return
        session_id = ordo_codecs.CONSUMER_COMMAND.decode(record).cluster_session_id
        if session_id not in self._loop.sessions:
            return
        if command.kind is CommandKind.INSTANCES:
            self._tell_text(session_id, command, self.instances.describe(command.position, position, self._loop.time))
        elif command.kind is CommandKind.DIFFERENCES:
            self._tell_text(session_id, command, self.differences.describe(command.name, command.position))
        elif command.kind is CommandKind.APP_UPGRADE:
            self._tell_text(session_id, command, f"[{position}]")
        else:
            self._tell(self.table.execute(command, session_id, position, time_ms(self._loop.time)))

    def on_report(self, record: bytes, position: int) -> None:
        """Execute an AppReport. One that makes no sense, or is of a session that is closed, changes nothing."""
        report = decode_report(record)
        if report is not None and report.session_id in self._loop.sessions:
            self.instances.take(report)

    def on_difference(self, record: bytes, position: int) -> None:
        """Execute an AppDifference, as `on_report`."""
        report = decode_difference(record)
        if report is not None and report.session_id in self._loop.sessions:
            self.differences.take(report._replace(log_position=position))

    def _tell_text(self, session_id: int, command: ConsumerCommand, text: str) -> None:
        self._tell([Notice(session_id, text_answer(command, ConsumerStatus.OK, text))])

    def close(self, session_id: int, position: int) -> None:
        """Note that a session is over."""
        self.instances.close_session(session_id)
        self._tell(self.table.close_session(session_id, position, time_ms(self._loop.time)))

    def _tell(self, notices: list[Notice]) -> None:
        """Send notices; a member asks again if one is lost."""
        if not self._loop.is_leading:
            return
        for session_id, answer in notices:
            session = self._loop.sessions.get(session_id)
            if session is not None:
                session.send_event(encode_answer(answer, self._loop.leadership_term_id, session_id))

    def begin(self) -> None:
        """Begin with the loaded state, before it is acknowledged: until then the consensus module deletes no log."""
        self._told_position = NULL_VALUE
        if self.table.hold_position != NULL_VALUE:
            self._tell_hold()

    def work(self, now_ns: int) -> None:
        """Tell the consensus module from where on the log is held, when that has changed; once a second at most."""
        is_begun = self._told_position is not None
        if is_begun and self.table.hold_position != self._told_position and now_ns >= self._hold_due_ns:
            self._hold_due_ns = now_ns + HOLD_INTERVAL_NS
            self._tell_hold()

    def _tell_hold(self) -> None:
        self._told_position = self.table.hold_position
        self._control.send(ordo_codecs.CONSUMERS_HOLD.encode(log_position=self._told_position))
