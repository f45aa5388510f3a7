"""Numbers of the archive control protocol (archive.md A2.4, A2.5)."""

from __future__ import annotations

from enum import IntEnum

from ordo.runtime.errors import ArchiveError, UnknownRecordingError

PROTOCOL_MAJOR_VERSION = 1
PROTOCOL_VERSION = 0x010C00
NULL_LENGTH = -1
REPLAY_ALL_AND_FOLLOW = -1
REPLAY_ALL_AND_STOP = -2

CONTROL_STREAM_ID_DEFAULT = 10
RESPONSE_STREAM_ID_DEFAULT = 20
EVENTS_STREAM_ID_DEFAULT = 30
LOCAL_CONTROL_CHANNEL_DEFAULT = "aeron:ipc?term-length=64k"


class ResponseCode(IntEnum):
    """The kind of a ControlResponse: success, or one of three failures."""

    OK = 0
    ERROR = 1
    RECORDING_UNKNOWN = 2
    SUBSCRIPTION_UNKNOWN = 3


class SourceLocation(IntEnum):
    """Where the publication to be recorded is: at the archive's own driver, or anywhere."""

    LOCAL = 0
    REMOTE = 1


class RecordingSignal(IntEnum):
    """An event in the life of a recording."""

    START = 0
    STOP = 1
    EXTEND = 2
    REPLICATE = 3
    MERGE = 4
    SYNC = 5
    DELETE = 6
    REPLICATE_END = 7


class ErrorCode(IntEnum):
    """The reason of a failed request; `ArchiveError.code` holds it."""

    GENERIC = 0
    ACTIVE_LISTING = 1
    ACTIVE_RECORDING = 2
    ACTIVE_SUBSCRIPTION = 3
    UNKNOWN_SUBSCRIPTION = 4
    UNKNOWN_RECORDING = 5
    UNKNOWN_REPLAY = 6
    MAX_REPLAYS = 7
    MAX_RECORDINGS = 8
    INVALID_EXTENSION = 9
    AUTHENTICATION_REJECTED = 10
    STORAGE_SPACE = 11
    UNKNOWN_REPLICATION = 12
    UNAUTHORISED_ACTION = 13
    REPLICATION_CONNECTION_FAILURE = 14
    EMPTY_RECORDING = 15
    INVALID_POSITION = 16


REFUSALS = (ErrorCode.AUTHENTICATION_REJECTED, ErrorCode.UNAUTHORISED_ACTION)
"""The client may not do it, and asking again does not help."""
FINAL = (*REFUSALS, ErrorCode.UNKNOWN_RECORDING, ErrorCode.INVALID_EXTENSION, ErrorCode.INVALID_POSITION)
"""The same request would be refused again: what it names is not there, or cannot be. The others may pass: there is no
room now, something is active, or another archive does not answer."""


def is_final(error: BaseException | None) -> bool:
    """Return whether an archive's refusal is final, so that the same request must not be sent to it again.

    A caller that knows better why it was refused may wait: a position that is still to be recorded is refused too.
    """
    return isinstance(error, UnknownRecordingError) or (isinstance(error, ArchiveError) and error.code in FINAL)
