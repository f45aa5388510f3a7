"""Every error of the house, in one tree.

    OrdoError
    |- ConfigurationError          a setting is wrong; nothing was started
    |- DecodeError                 bytes from outside do not follow their format
    |- MemoryInUseError            a buffer is closed while views of it are out
    |- CountersFullError           no counter record is free
    |- StorageError                a file operation failed
    |  |- StorageFullError         no room on a device
    |  |- StorageInUseError        a folder belongs to another live process
    |  |- StorageMissingError      a file or folder is not there
    |  |- StorageDamagedError      a metadata store cannot be understood
    |  `- StorageExistsError       a file that must be new is there already
    |- TransportError
    |  |- ChannelError             a channel URI or its parameters are wrong
    |  |- RegistrationError        the driver refused a command (has its `code`)
    |  |- DriverTimeoutError       the driver does not answer or is gone
    |  |- DriverInUseError         another driver is alive in the folder
    |  |- ClientTimeoutError       the driver has given this client up
    |  `- PublicationError         a publication cannot take this message
    |- ArchiveError                (has its `code`)
    |  |- CorruptFrameError        a recorded frame is damaged
    |  |- UnknownRecordingError    no recording of this id
    |  `- ArchiveTimeoutError      the archive does not answer
    |- ConsensusError              a Raft rule or the recovery plan is violated
    |- ClusterError
    |  |- ClusterTimeoutError      no leader or no answer in time
    |  |  |- NoQuorumError         no member leads
    |  |  `- OutcomeUnknownError   an order was given, and whether it is carried out is not known
    |  |- NotPermittedError        the credentials do not suffice for what was asked
    |  |- SessionClosedError       the session is closed
    |  |- SessionRejectedError     the cluster refused the session
    |  |- QueryFailedError         the service answers no such query, or failed at it
    |  |- RejectedError            the service refused a request, and changed nothing (has its `log_position`)
    |  |- AnswerTooLongError       a request was executed, its answer is too long (has its `log_position`)
    |  |- IdentityError            a client's identity cannot be used: what was under way may have been executed
    |  |- NotSequencedError        a message is not in the log, or nobody can tell (has its `is_certain`)
    |  `- NotLeaderError           this member does not lead
    `- ServiceError
       |- Reject                   raised by a service: this message is refused, and nothing was changed
       |- ServiceCallError         the service used the cluster where it may not
       `- SnapshotError            a snapshot cannot be taken or read

The category says what to do: FATAL stops the process, ERROR fails the operation, WARN is worth a line in the log.
Messages are one line: what was wrong, what is allowed, what to do.
"""

from enum import Enum
from typing import ClassVar


class Category(Enum):
    """What an error means for the process that meets it."""

    FATAL = "fatal"
    ERROR = "error"
    WARN = "warn"


class OrdoError(Exception):
    """The root. `category` may be narrowed for one occurrence with the keyword argument."""

    default_category: ClassVar[Category] = Category.ERROR

    def __init__(self, message: str, *, category: Category | None = None) -> None:
        super().__init__(message)
        self.category = category or self.default_category

    @property
    def message(self) -> str:
        """The error as one line for the user."""
        return str(self.args[0])


class ConfigurationError(OrdoError):
    """A setting is wrong; nothing was started."""

    default_category = Category.FATAL


class DecodeError(OrdoError):
    """Bytes from outside do not follow their format. The only error a decoder lets out."""


class MemoryInUseError(OrdoError, BufferError):
    """A block of memory is closed while views of it are out."""


class CountersFullError(OrdoError):
    """No counter record is free."""


class StorageError(OrdoError):
    """A file operation failed."""

    default_category = Category.FATAL


class StorageFullError(StorageError):
    """A device has no room left."""


class StorageInUseError(StorageError):
    """A folder belongs to another live process."""


class StorageMissingError(StorageError):
    """A file or folder is not there."""

    default_category = Category.ERROR


class StorageDamagedError(StorageError):
    """A metadata store cannot be understood: its bytes are not what was written."""


class StorageExistsError(StorageError):
    """A file that must be new is there already."""

    default_category = Category.ERROR


class TransportError(OrdoError):
    """A failure of the transport."""


class ChannelError(TransportError):
    """A channel URI or one of its parameters is wrong."""


class RegistrationError(TransportError):
    """The driver refused a command. `code` is one of cnc-and-driver-protocol.md §6.4."""

    def __init__(self, message: str, *, code: int, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.code = code


class DriverTimeoutError(TransportError):
    """The driver does not answer in time, or its heartbeat stopped."""

    default_category = Category.FATAL


class DriverInUseError(TransportError):
    """Another driver is alive in the same folder."""

    default_category = Category.FATAL


class ClientTimeoutError(TransportError):
    """The driver has given this client up; everything it had is closed."""

    default_category = Category.FATAL


class PublicationError(TransportError):
    """A publication cannot take this message, now or ever."""


class ArchiveError(OrdoError):
    """A failure of the archive. `code` is one of archive.md's error codes, 0 when generic."""

    def __init__(self, message: str, *, code: int = 0, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.code = code


class CorruptFrameError(ArchiveError):
    """A recorded frame is damaged. Names the recording, the segment file, the position and the reason."""

    def __init__(
        self,
        message: str,
        *,
        recording_id: int = -1,
        position: int = -1,
        segment_path: str = "",
        reason: str = "",
        category: Category | None = None,
    ) -> None:
        super().__init__(message, category=category)
        self.recording_id = recording_id
        self.position = position
        self.segment_path = segment_path
        self.reason = reason


class UnknownRecordingError(ArchiveError):
    """There is no recording of this id."""


class ArchiveTimeoutError(ArchiveError):
    """The archive does not answer in time."""


class ConsensusError(OrdoError):
    """A Raft rule or the recovery plan is violated; the node must not go on."""

    default_category = Category.FATAL


class ClusterError(OrdoError):
    """A failure of the cluster or of the way to it."""


class ClusterTimeoutError(ClusterError):
    """The cluster had no leader, or did not answer, in time."""


class NoQuorumError(ClusterTimeoutError):
    """No member led within the time: nothing is committed, and nobody takes orders."""


class OutcomeUnknownError(ClusterTimeoutError):
    """An order was given and its end was not seen: it may have been carried out, or may be yet."""


class NotPermittedError(ClusterError):
    """The credentials do not suffice for what was asked."""


class SessionClosedError(ClusterError):
    """The session is closed."""


class SessionRejectedError(ClusterError):
    """The cluster refused the session."""


class QueryFailedError(ClusterError):
    """The service answers no such query, or failed at it; asking again does not help."""


class RejectedError(ClusterError):
    """The service refused a request, and changed nothing. Says why."""

    def __init__(self, message: str, *, log_position: int = -1, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.log_position = log_position


class AnswerTooLongError(ClusterError):
    """A request was executed; its answer is longer than may be kept, or than the egress takes."""

    def __init__(self, message: str, *, log_position: int = -1, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.log_position = log_position


class IdentityError(ClusterError):
    """A client's identity cannot be used, or not any more: what was under way may or may not have been executed."""


class NotSequencedError(ClusterError):
    """A message of `send` is not in the log and never will be; with `is_certain` False nobody can tell: it may be."""

    def __init__(self, message: str, *, is_certain: bool = True, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.is_certain = is_certain


class NotLeaderError(ClusterError):
    """This member does not lead."""


class ServiceError(OrdoError):
    """A failure in or around the user's service."""


class Reject(ServiceError):
    """Raised by a service in `on_session_message`: the message is refused, and nothing was changed.

    Every member refuses it alike; the client gets the text as a RejectedError. To be raised before anything was
    changed, scheduled or sent: nothing is undone.
    """


class ServiceCallError(ServiceError):
    """The service used the cluster in a callback that may not."""


class SnapshotError(ServiceError):
    """A snapshot cannot be taken or read."""
