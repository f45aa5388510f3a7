"""Moves this member's log between its states: at rest, led, followed, truncated.

Keeps the sequencer's view of it (reader, durable position) in step. docs/ARCHITECTURE.md, Terms and the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.archive.segments.catalog import RecordingState
from ordo.cluster.wire import codecs
from ordo.cluster.wire.members import Member
from ordo.consensus.state import commands, messages
from ordo.runtime.errors import ClusterError, CorruptFrameError, OrdoError, StorageError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.sequencer.log_channel import FollowerLog, LeaderLog, LogParameters, RecordedLog, TermStart
from ordo.transport.streams.publication import MAX_MESSAGE_LENGTH

if TYPE_CHECKING:
    from ordo.archive.recorder import Recording
    from ordo.cluster.module.state.counters import ModuleCounters
    from ordo.cluster.module.state.host import ArchiveAccess
    from ordo.cluster.module.state.peers import Contacts
    from ordo.cluster.module.state.recovery import Recovery
    from ordo.cluster.module.state.settings import ModuleSettings
    from ordo.cluster.module.state.state_store import StateStore
    from ordo.runtime.native.cluster_time import TimeUnit
    from ordo.sequencer.sequencer import Sequencer

APPEND_FLAG_CATCHUP = 1
APPEND_FLAG_LIVE = 2
FIRST_RECORD_ATTEMPTS = 100
CATCHUP_RETRY_INTERVAL_NS = 100_000_000
STANDSTILL_NS = 1_000_000_000


class LogKeeper:
    """Holds this member's log.

    Exactly one of `_leader_log` and `_follower_log` is set while it is open, neither at rest.
    """

    def __init__(
        self,
        config: ModuleSettings,
        contacts: Contacts,
        access: ArchiveAccess,
        store: StateStore,
        sequencer: Sequencer,
        counters: ModuleCounters,
        on_failure: Callable[[Exception], None],
        on_gone: Callable[[int, int, int], None],
    ) -> None:
        """Keep the parts that the log needs.

        `on_gone(member id, position, start)` is called on a leader when a member asks for log that begins below this
        leader's `start`.
        """
        self._on_gone = on_gone
        self.is_held = False
        """No log is joined: a snapshot is on its way to the endpoint for catch-ups, or the node is about to end."""
        self._config = config
        self._contacts = contacts
        self._own = contacts.own
        self._archive = access.archive
        self._client = access.client
        self._store = store
        self._sequencer = sequencer
        self._counters = counters
        self._on_failure = on_failure
        self._parameters = LogParameters(
            config.log_term_length_bytes,
            config.mtu_bytes,
            config.receiver_window_bytes,
            config.socket_buffer_bytes,
        )
        self._leader_log: LeaderLog | None = None
        self._follower_log: FollowerLog | None = None
        self._join: commands.JoinLog | None = None
        self._loss: tuple[str, bool] | None = None
        self._next_catchup_request_ns = 0
        self._standstill = (NULL_VALUE, 0)
        self._room_bytes: int | None = None
        self.recording_id = NULL_VALUE

    @property
    def start_position(self) -> int:
        """Where the recorded log begins; NULL_VALUE while there is none."""
        if self.recording_id == NULL_VALUE:
            return NULL_VALUE
        return int(self._archive.descriptor(self.recording_id).start_position)

    def open(self, recovery: Recovery, announce: Callable[[str, str], None]) -> None:
        """Start with the log at rest, at its recovered end."""
        self.recording_id = recovery.log_recording_id
        if self.recording_id != NULL_VALUE:
            self._tell_lengths(announce)
        self._counters.log_recording.set(self.recording_id)
        reader = (
            None
            if self.recording_id == NULL_VALUE
            else self._archive.follower(self.recording_id, recovery.log_position)
        )
        self._sequencer.open_log(reader, recovery.append_position, recovery.log_position)
        self._sequencer.scan_to_end()

    @property
    def message_bytes_max(self) -> int:
        """The longest message that the log takes in bytes: an eighth of its term length, whatever the settings say.

        An eighth of its term length, whatever the settings ask for.
        """
        if self.recording_id == NULL_VALUE:
            return min(self._parameters.term_length_bytes // 8, MAX_MESSAGE_LENGTH)
        return min(self._archive.descriptor(self.recording_id).term_length // 8, MAX_MESSAGE_LENGTH)

    def _tell_lengths(self, announce: Callable[[str, str], None]) -> None:
        """Announce settings that take effect only in a new log and so are not in force."""
        found, wanted = self._archive.descriptor(self.recording_id), self._parameters
        if (found.term_length, found.mtu) != (wanted.term_length_bytes, wanted.mtu_bytes):
            announce(
                "cluster.log-lengths",
                f"the log goes on with log_term_length = {found.term_length} and mtu = {found.mtu}, with which it was "
                f"begun: {wanted.term_length_bytes} and {wanted.mtu_bytes} of the configuration are for a new log "
                "(`ordo cluster renew-log`)",
            )

    # -- leading

    def lead(self, leadership_term_id: int, base_position: int, others: list[Member], now_ns: int) -> int:
        """Open the log publication at `base_position`, to these members, and record it; return its session id."""
        self._leader_log = LeaderLog(
            self._archive,
            self._client,
            self._contacts.bound,
            others,
            self._parameters,
            TermStart(self.recording_id, base_position),
            self._on_failure,
            now_ns,
        )
        self._attach(self._leader_log.recording)
        self._sequencer.lead(leadership_term_id, self._leader_log.publication)
        return int(self._leader_log.publication.session_id)

    def append_first_record(
        self, leadership_term_id: int, base_position: int, cluster_time: int, time_unit: TimeUnit, app_version: int
    ) -> int:
        """Append the NewLeadershipTermEvent and return the position after it."""
        assert self._leader_log is not None
        end = self._sequencer.position_after(codecs.NEW_LEADERSHIP_TERM_EVENT.block_length + codecs.HEADER_LENGTH_BYTES)
        record = codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
            leadership_term_id=leadership_term_id,
            log_position=end,
            timestamp=cluster_time,
            term_base_log_position=base_position,
            leader_member_id=self._own.id,
            log_session_id=self._leader_log.publication.session_id,
            time_unit=time_unit,
            app_version=app_version,
        )
        for _ in range(FIRST_RECORD_ATTEMPTS):
            position = int(self._sequencer.append(record))
            if position > 0:
                return position
            self._client.invoke()
        raise ClusterError(f"the first record of term {leadership_term_id} found no room in the log: result={position}")

    def on_catchup_position(self, message: messages.CatchupPosition, leadership_term_id: int) -> None:
        leader_log = self._leader_log
        if leader_log is None or message.leadership_term_id != leadership_term_id:
            return
        (member,) = self._contacts.find([message.follower_member_id])
        if not leader_log.needs_replay(member.id, message.log_position):
            return
        start_position = self._archive.descriptor(self.recording_id).start_position
        if message.log_position < start_position:
            self._on_gone(member.id, message.log_position, start_position)
            return
        if message.log_position > leader_log.recording.written_position:
            return  # the member is ahead of what this leader has recorded so far; it asks again
        try:
            leader_log.start_replay(member, message.log_position, message.catchup_endpoint)
        except (CorruptFrameError, StorageError) as error:
            self._on_failure(error)
        except OrdoError as error:
            self._on_failure(ClusterError(f"no replay of the log to member {member.id}: {error.message}"))

    def on_append_position(
        self, message: messages.AppendPosition, leadership_term_id: int
    ) -> messages.StopCatchup | None:
        """Return the message that ends a member's catch-up, once the member is live and near; else None."""
        leader_log = self._leader_log
        if (
            leader_log is None
            or message.leadership_term_id != leadership_term_id
            or not message.flags & APPEND_FLAG_LIVE
        ):
            return None
        if message.log_position < leader_log.near_position:
            return None
        leader_log.stop_replay(message.follower_member_id)
        return messages.StopCatchup(leadership_term_id, message.follower_member_id)

    def send_to(self, others: list[Member], is_final: bool, now_ns: int) -> None:
        """Send to the new set of members; removed ones receive the live log until their removal is committed."""
        if self._leader_log is not None:
            self._leader_log.send_to(others, is_final, now_ns)

    @property
    def near_position(self) -> int:
        """The position from which on a member's log counts as up to date, for this leader."""
        return NULL_VALUE if self._leader_log is None else self._leader_log.near_position

    # -- following

    def join(self, command: commands.JoinLog) -> None:
        """Subscribe to the leader's log; `advance_join` does the rest.

        A damaged tail was kept until now and is dropped here, since this leader has the log to copy.
        """
        if self.recording_id != NULL_VALUE:
            descriptor = self._archive.descriptor(self.recording_id)
            if descriptor.state is not RecordingState.VALID:
                self._archive.truncate(self.recording_id, descriptor.stop_position)
        self._join = command
        self._next_catchup_request_ns = 0
        self._sequencer.follow(command.leadership_term_id, command.leader_member_id)
        self._sequencer.set_append_flags(APPEND_FLAG_CATCHUP)

    @property
    def meets_renewed_log(self) -> bool:
        """Whether the leader's log was begun anew with other lengths, and this member's recording has the former."""
        return self._follower_log is not None and self._follower_log.has_other_lengths

    def advance_join(self, now_ns: int, send: Callable[[int, messages.Message], None]) -> int | None:
        """Take one step towards the live log; return the joined position in the step that joins, else None."""
        if self._join is None or (self.is_held and self._follower_log is None):
            return None
        if self._follower_log is None and not self._subscribe(self._join):
            return None
        log = self._follower_log
        assert log is not None
        joined = log.try_join()
        if joined:
            assert log.recording is not None
            self._attach(log.recording)
        was_live = log.is_live
        if log.recording is None:
            self._request_catchup(self._join.from_position, now_ns, send)
        elif log.try_go_live(max(self._join.leader_position, self._sequencer.notified_position)):
            self._sequencer.set_append_flags(APPEND_FLAG_CATCHUP | APPEND_FLAG_LIVE)
        elif not was_live:
            self._next_catchup_request_ns = now_ns + CATCHUP_RETRY_INTERVAL_NS
        else:  # the replay may have ended before the live log came
            self._request_catchup(log.position, now_ns, send)
        return self._join.from_position if joined else None

    def _subscribe(self, join: commands.JoinLog) -> bool:
        """Subscribe to the log; False while the driver still holds the endpoints of an earlier subscription."""
        try:
            self._follower_log = FollowerLog(
                self._archive,
                self._client,
                self._contacts.bound,
                join.log_session_id,
                self.recording_id,
                join.from_position,
                self._parameters,
                self._on_lost,
            )
        except OrdoError as error:
            self._on_lost(f"cannot subscribe to the log: {error.message}", False)
            return False
        return True

    def _request_catchup(self, position: int, now_ns: int, send: Callable[[int, messages.Message], None]) -> None:
        assert self._join is not None
        if now_ns < self._next_catchup_request_ns:
            return
        self._next_catchup_request_ns = now_ns + CATCHUP_RETRY_INTERVAL_NS
        send(
            self._join.leader_member_id,
            messages.CatchupPosition(self._join.leadership_term_id, position, self._own.id, self._own.catchup),
        )

    def stop_catchup(self, leadership_term_id: int) -> bool:
        """End the replay, since the log is live. Returns False for a message about another join."""
        if self._join is None or self._join.leadership_term_id != leadership_term_id or self._follower_log is None:
            return False
        self._follower_log.stop_catchup()
        self._sequencer.set_append_flags(0)
        self._join = None
        return True

    def _on_lost(self, reason: str, end_of_stream: bool) -> None:
        self._loss = (reason, end_of_stream)

    def take_loss(self, now_ns: int) -> tuple[str, bool] | None:
        """Return why the log was lost since the last call (and whether it ended cleanly), or None."""
        loss, self._loss = self._loss, None
        log = self._leader_log or self._follower_log
        if loss is not None or log is None:
            return loss
        if log.failure is not None:
            return log.failure, False
        return None if self._follower_log is None else self._find_follower_loss(self._follower_log, now_ns)

    def _find_follower_loss(self, log: FollowerLog, now_ns: int) -> tuple[str, bool] | None:
        """Return why a follower's log was lost, and whether cleanly. A follower that lags too far needs a replay."""
        if log.has_ended:
            return "the leader has closed its log", True
        position, notified = log.position, self._sequencer.notified_position
        if self._join is not None or position >= notified or position != self._standstill[0]:
            self._standstill = position, now_ns
        elif now_ns - self._standstill[1] > STANDSTILL_NS:
            return f"the log stands still at position={position}, {notified} is committed", False
        return None

    # -- as a standby

    def take_copy(self, recording: Recording) -> None:
        """Go on with a recording of the log that somebody else makes: a standby copies what a cluster has committed."""
        assert self._leader_log is None and self._follower_log is None, "a member's log is led or followed"
        self._attach(recording)

    def _find_copy(self) -> Recording | None:
        """Return what records the log though nobody leads or follows it, as a standby's is."""
        return None if self.recording_id == NULL_VALUE else self._archive.recording(self.recording_id)

    def release_copy(self) -> None:
        """Scan the copy to its end, since its recording has stopped."""
        self._sequencer.detach_recording(int(self._archive.descriptor(self.recording_id).stop_position))
        self._sequencer.scan_to_end()

    # -- both

    @property
    def is_open(self) -> bool:
        return self._leader_log is not None or self._follower_log is not None

    def bound(self, room_bytes: int | None) -> None:
        """Limit the log to `room_bytes` of the disk until the next call; None removes the limit.

        A member that catches up records more between two looks at the disk than its marks keep free.
        """
        self._room_bytes = room_bytes
        log = self._leader_log or self._follower_log
        recording = self._find_copy() if log is None else log.recording
        if recording is not None:
            self._bound(recording)

    def _bound(self, recording: Recording) -> None:
        if self._room_bytes is not None:
            recording.limit_position = recording.written_position + self._room_bytes

    def _attach(self, recording: Recording) -> None:
        self._bound(recording)
        if self.recording_id == NULL_VALUE:
            self.recording_id = recording.recording_id
            self._store.put_log_recording(self.recording_id)
            self._sequencer.set_reader(self._archive.follower(self.recording_id, None))
            self._counters.log_recording.set(self.recording_id)
        self._sequencer.attach_recording(recording)

    def leave(self) -> None:
        """Bring the log to rest; every durable record of it is scanned when this returns."""
        log = self._leader_log or self._follower_log
        self._leader_log = self._follower_log = None
        self._join = None
        self._loss = None
        self._sequencer.stand_by()
        if log is None:
            return
        stop_position = log.close()
        _demand_storage(log)
        if stop_position is not None:
            self._sequencer.detach_recording(stop_position)
            self._sequencer.scan_to_end()

    def truncate(self, position: int) -> None:
        """Cut the resting log at `position`, in the archive, the term table and the sequencer."""
        assert self._leader_log is None and self._follower_log is None, "truncate while the log is open"
        if self.recording_id != NULL_VALUE:
            self._archive.truncate(self.recording_id, position)
        self._store.truncate_terms(position)
        self._sequencer.truncated(position)


def _demand_storage(log: RecordedLog) -> None:
    """Raise the error that kept the recording from being closed; only a restart can then find its end."""
    if isinstance(log.stop_error, StorageError):
        raise log.stop_error
