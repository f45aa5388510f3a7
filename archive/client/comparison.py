"""Whether a recording here has a part of the one that another archive offers, found out before it is gone on with.

Logs of all clusters have the same initial term id, and archives that record one stream give it ids, sources and times
of their own: only what is recorded says whose it is. The first message that both have is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordo.archive.archive import Archive
from ordo.archive.client.replay import REPLAY_STREAM_ID_DEFAULT, RecordedMessage, Replay
from ordo.archive.client.session import ArchiveSession
from ordo.archive.protocol.codes import ErrorCode
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import OrdoError, OtherRecordingError
from ordo.transport.uri import ChannelUri

if TYPE_CHECKING:
    from ordo.archive.segments.reader import RecordedMessage as OwnMessage

_ALIKE = ("initial_term_id", "term_length", "mtu", "stream_id")


def check_alike(source: RecordingDescriptor, target: RecordingDescriptor) -> None:
    """Raise OtherRecordingError where the descriptors say that the target has no part of the source."""
    for name in _ALIKE:
        theirs, ours = getattr(source, name), getattr(target, name)
        if theirs != ours:
            raise _other(source, target, f"it has {name}={theirs}, and this one {name}={ours}")


def _other(source: RecordingDescriptor, target: RecordingDescriptor, why: str) -> OtherRecordingError:
    return OtherRecordingError(
        f"recording {source.recording_id} of the source archive is not the one that recording {target.recording_id} "
        f"has a part of: {why}; replicate it into a new recording",
        code=ErrorCode.INVALID_EXTENSION,
    )


def _has_address(session: ArchiveSession) -> bool:
    response = ChannelUri.parse(session.settings.response_channel)
    return response.is_ipc or response.endpoint is not None


class Comparison:
    """The first message of both recordings, asked of the source. `work` every duty cycle until `is_done`."""

    def __init__(
        self,
        archive: Archive,
        session: ArchiveSession,
        source: RecordingDescriptor,
        target: RecordingDescriptor,
        now_ns: int,
    ) -> None:
        """Begin to compare; done at once where the recordings share no whole message.

        It is also where the source can only answer over a response channel: it finds no address of ours to replay to.

        `session`: connected to the source. Raises OtherRecordingError where the descriptors differ, ArchiveError where
        the target cannot be read.
        """
        check_alike(source, target)
        self.error: OrdoError | None = None
        self._source, self._target = source, target
        self._replay: Replay | None = None
        self._theirs: RecordedMessage | None = None
        begin = max(source.start_position, target.start_position)
        self._ours = self._first_message(archive, begin) if _has_address(session) else None
        if self._ours is not None:
            self._replay = Replay(
                session,
                source.recording_id,
                now_ns=now_ns,
                position=begin,
                length=self._ours.position - begin,
                stream_id=REPLAY_STREAM_ID_DEFAULT + (source.stream_id == REPLAY_STREAM_ID_DEFAULT),
            )

    def _first_message(self, archive: Archive, begin: int) -> OwnMessage | None:
        if begin >= self._target.stop_position:
            return None
        return next(iter(archive.reader(self._target.recording_id, begin).messages()), None)

    @property
    def is_done(self) -> bool:
        """Whether the source goes on with what is here, or an `error` says that it does not."""
        return self._replay is None or self._replay.is_done

    def work(self, now_ns: int) -> int:
        """Run one duty cycle, after the session's; return the count of things done."""
        if self._replay is None or self._ours is None:
            return 0
        work_count = self._replay.work(now_ns) + self._replay.poll(self._take)
        if self._replay.is_done and self.error is None:
            self.error = self._replay.error
            ours = RecordedMessage(self._ours.position, self._ours.payload)
            if self.error is None and self._theirs != ours:
                why = f"the first message that both should have, up to position={ours.position}, differs"
                self.error = _other(self._source, self._target, why)
        return work_count

    def _take(self, message: RecordedMessage) -> None:
        self._theirs = self._theirs or message

    def close(self) -> None:
        """End the replay. Idempotent."""
        if self._replay is not None:
            self._replay.close()
