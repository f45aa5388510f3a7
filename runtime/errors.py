"""Every error that Ordo raises, in one tree.

    OrdoError
    |- ConfigurationError          a setting is wrong; nothing was started
    |- DecodeError                 bytes from outside do not follow their format
    |- MemoryInUseError            a buffer is closed while views of it are out
    |- CountersFullError           no counter record is free
    |- PayloadError                a message or an answer is no bytes
    |- MessageError                a message with types cannot be made, written or read (has its `log_position`)
    |- ForkedError                 what another process opened is used in a copy of that process made by fork
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
    |  |- OtherRecordingError      a recording is another one than what was read or copied before
    |  `- ArchiveTimeoutError      the archive does not answer
    |- ConsensusError              a Raft rule or the recovery plan is violated
    |- ClusterError
    |  |- ClusterTimeoutError      no leader or no answer in time
    |  |  |- NoQuorumError         no member leads
    |  |  `- OutcomeUnknownError   an order was given, and whether it is carried out is not known
    |  |- NotPermittedError        the credentials do not suffice for what was asked
    |  |- OtherClusterError        a node is of another cluster than what is kept, or was read before
    |  |- SessionClosedError       the session is closed
    |  |- SessionRejectedError     the cluster refused the session
    |  |- QueryFailedError         the service answers no such query, or failed at it
    |  |- RejectedError            the service refused a request, and changed nothing (has `log_position`, `sequence`)
    |  |- AnswerTooLongError       a request was executed, its answer is too long (has its `log_position`)
    |  |- AnswerForgottenError     a request was executed, its answer is not kept any more (has its `log_position`)
    |  |- RequestIdError           the id of a request was used for another payload (has its `log_position`)
    |  |- IdentityError            a client's identity cannot be used: what was under way may have been executed
    |  |- NotSequencedError        a message is not in the log, or nobody can tell (has its `is_certain`)
    |  `- NotLeaderError           this member does not lead
    `- ServiceError
       |- Reject                   raised by a service: this message is refused, and nothing was changed
       |- ServiceCallError         the service used the cluster where it may not
       `- SnapshotError            a snapshot cannot be taken or read

The category says what to do: FATAL stops the process, ERROR fails the operation, WARN is worth a line in the log.
Messages are one line: what was wrong, what is allowed, what to do. The last paragraph of each error says what to do in
general; docs/ERRORS.md is made of them.
"""

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Any, ClassVar, Self


class Category(Enum):
    """What an error means for the process that meets it."""

    FATAL = "fatal"
    ERROR = "error"
    WARN = "warn"


class RequestOutcome(StrEnum):
    """The outcome of the request, message or order that an error ended."""

    NOT_EXECUTED = "not executed"
    """And it never will be: it may be sent again."""
    EXECUTED = "executed"
    """It must not be sent again."""
    UNKNOWN = "unknown"
    """It may have been executed, or may be yet."""


class OrdoError(Exception):
    """The root. `category` may be narrowed for one occurrence with the keyword argument.

    `outcome` says what became of the request, message or order that the error ended, as a RequestOutcome; None: it
    ended none. `pending` is the request that goes on after an error that only ended the wait for it, or one that was
    executed and has an answer of another class than it names. `answers` and `requests` are those of a call that made
    many requests: the answer of each, or None, and each that was taken.

    What to do: Read the message: it is one line that says what was wrong and what to change. Each kind below says
    more.
    """

    default_category: ClassVar[Category] = Category.ERROR

    default_outcome: ClassVar[RequestOutcome | None] = None
    pending: Any = None
    answers: Sequence[Any] = ()
    requests: Sequence[Any] = ()

    def __init__(
        self, message: str, *, category: Category | None = None, outcome: RequestOutcome | None = None
    ) -> None:
        super().__init__(message)
        self.category = category or self.default_category
        self.outcome = outcome or self.default_outcome

    @property
    def message(self) -> str:
        """The error as one line for the user."""
        return str(self.args[0])

    def for_request(self, outcome: RequestOutcome) -> Self:
        """Return this error for one request that it ended, with that request's outcome."""
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        found.args = (f"{_OF_REQUEST[outcome]}: {self.message}",)
        found.outcome = outcome
        return found


_OF_REQUEST = {
    RequestOutcome.NOT_EXECUTED: "not executed",
    RequestOutcome.EXECUTED: "executed",
    RequestOutcome.UNKNOWN: "unknown whether it was executed",
}


class ConfigurationError(OrdoError):
    """A setting is wrong; nothing was started.

    What to do: Correct the setting that the message names; CONFIGURATION.md has all keys. `ordo doctor` checks a
    whole file.
    """

    default_category = Category.FATAL


class DecodeError(OrdoError):
    """Bytes from outside do not follow their format. The only error a decoder lets out.

    What to do: Nothing on the side that raises it: the bytes are dropped. Find out who sends them, or which file is
    damaged.
    """


class MemoryInUseError(OrdoError, BufferError):
    """A block of memory is closed while views of it are out.

    What to do: Let go of the memoryviews and payloads of the buffer before closing what they came from.
    """


class CountersFullError(OrdoError):
    """No counter record is free.

    What to do: Close streams and sessions that nobody needs, or enlarge /dev/shm where the message says so.
    """


class PayloadError(OrdoError, TypeError):
    """A message, an answer or a written value is not bytes. Nothing was sent.

    What to do: Give bytes: `text.encode()` for a text, `json.dumps(value).encode()` for other values.
    """


class MessageError(OrdoError, ValueError):
    """A message with types cannot be made, written or read: its class, a value of it, or bytes that came from outside.

    Where it says that a request was executed and answered by something else, it has the request as `pending`, whose
    `answer` has the bytes, and its `log_position` and `sequence`; without a request they are -1 and None.

    What to do: The text names the field and what is allowed there. Bytes that cannot be read are of another schema, of
    another message, or damaged: find out who sends them.
    """

    log_position: int = -1
    sequence: int | None = None


class ForkedError(OrdoError):
    """An object is used in a process that was forked from the one that opened it. Nothing was sent or executed.

    What to do: Open one in each process, after the fork: in the worker's own start, such as gunicorn's `post_fork` or
    the `initializer` of a pool. The parent's goes on, whatever the child does with its copy.
    """

    default_outcome = RequestOutcome.NOT_EXECUTED


class StorageError(OrdoError):
    """A file operation failed.

    What to do: Look at the disk and at the permissions of the folder that the message names, then start again.
    """

    default_category = Category.FATAL


class StorageFullError(StorageError):
    """A device has no room left.

    What to do: Make room on the device. A node whose disk is full starts again by itself then (OPERATIONS.md, Full
    disks).
    """


class StorageInUseError(StorageError):
    """A folder belongs to another live process.

    What to do: End the process that the message names, or give this one a folder of its own.
    """


class StorageMissingError(StorageError):
    """A file or folder is not there.

    What to do: Check the path. A node whose folder was lost is started with `--rejoin` (MEMBERS.md).
    """

    default_category = Category.ERROR


class StorageDamagedError(StorageError):
    """A metadata store is damaged: its bytes are not those that were written.

    What to do: Restart the node: it sets damaged files aside and fetches the log from the others (MEMBERS.md).
    """


class StorageExistsError(StorageError):
    """A file that must be new exists already.

    What to do: Remove the file that the message names, or choose another name.
    """

    default_category = Category.ERROR


class TransportError(OrdoError):
    """A failure of the transport.

    What to do: Close the client or node that raised it, and open it again.
    """


class ChannelError(TransportError):
    """A channel URI or one of its parameters is wrong.

    What to do: Correct the channel: the message names the parameter and what is allowed.
    """


class RegistrationError(TransportError):
    """The driver refused a command. `code` is one of cnc-and-driver-protocol.md §6.4.

    What to do: Its `code` and message say what the driver refused: correct the channel, or free what is used up.
    """

    def __init__(self, message: str, *, code: int, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.code = code


class DriverTimeoutError(TransportError):
    """The driver does not answer in time, or its heartbeat stopped.

    What to do: Check that the node or driver runs, and that the machine does not pause or lack CPU time; then open
    a new client.
    """

    default_category = Category.FATAL


class DriverInUseError(TransportError):
    """Another driver is alive in the same folder.

    What to do: Stop the other driver, or use another folder.
    """

    default_category = Category.FATAL


class ClientTimeoutError(TransportError):
    """The driver has given this client up; everything it had is closed.

    What to do: Open a new client, and call it more often: this process stood still for longer than the driver
    waits.
    """

    default_category = Category.FATAL


class PublicationError(TransportError):
    """A publication cannot take this message, now or ever.

    What to do: Open the publication again. For a message that is too long, send less or raise the term length.
    """


class ArchiveError(OrdoError):
    """A failure of the archive. `code` is one of archive.md's error codes, 0 when generic.

    What to do: Its `code` and message say what the archive refused; ARCHIVE.md describes its requests.
    """

    def __init__(self, message: str, *, code: int = 0, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.code = code


class CorruptFrameError(ArchiveError):
    """A recorded frame is damaged. Names the recording, the segment file, the position and the reason.

    What to do: Run `ordo archive verify`. A member mends its log from the others; restore other copies from a
    backup.
    """

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
    """There is no recording of this id.

    What to do: List the recordings with `ordo archive list`: this one was purged, or was never there.
    """


class OtherRecordingError(ArchiveError):
    """A recording, or a live stream, is not the one that was read or copied before. Nothing of the two was mixed.

    What to do: Give the archive and the recording that were read before, or begin anew without their position
    (ARCHIVE.md).
    """


class ArchiveTimeoutError(ArchiveError):
    """The archive does not answer in time.

    What to do: Check that the node runs and that its archive endpoint is reachable, then ask again.
    """


class ConsensusError(OrdoError):
    """A Raft rule or the recovery plan is violated; the node must not go on.

    What to do: Keep the member's folder and its log, and report it: this is a fault of Ordo or of the disk. The
    others go on.
    """

    default_category = Category.FATAL


class ClusterError(OrdoError):
    """A failure of the cluster or of the way to it.

    What to do: The message says what the cluster refused or where it could not be reached.
    """


class ClusterTimeoutError(ClusterError):
    """The cluster had no leader, or did not answer, in time.

    What to do: Check the endpoints and `ordo cluster status`. A request goes on: wait for it with
    `error.pending.result()`; another `request` would be executed as well, unless both have the same `id` (CLIENT.md).
    """


class NoQuorumError(ClusterTimeoutError):
    """No member led within the time: nothing is committed, and no member takes orders.

    What to do: Start the members that are down, and check that they reach each other (OPERATIONS.md).
    """


class OutcomeUnknownError(ClusterTimeoutError):
    """An order was given and its end was not seen: it may have been carried out, or may be yet.

    What to do: Look with `ordo cluster status` whether the order was carried out before you give it again.
    """

    default_outcome = RequestOutcome.UNKNOWN


class NotPermittedError(ClusterError):
    """The credentials do not allow the request.

    What to do: Give a token or credentials of the role that the message names (SECURITY.md).
    """


class OtherClusterError(ClusterError):
    """A node belongs to another cluster than the stored data, or than what was read or sent before. Nothing was mixed.

    Where that cluster went on with the log of the known one, as a standby that was promoted, `kept_position` says up to
    where it has it; else it is None. A client's error has in `lost_requests` the numbers of its requests that were
    answered before and are not in that log.

    What to do: Give the addresses of one cluster, or begin anew, with another folder, file or position (ACCIDENTS.md).
    """

    def __init__(
        self,
        message: str,
        *,
        kept_position: int | None = None,
        lost_requests: Sequence[int] = (),
        category: Category | None = None,
    ) -> None:
        super().__init__(message, category=category)
        self.kept_position = kept_position
        self.lost_requests = lost_requests


class SessionClosedError(ClusterError):
    """The session is closed.

    What to do: Open a new client, or let it stay by itself: `ClientSettings(reconnect=True)`.
    """


class SessionRejectedError(ClusterError):
    """The cluster refused the session.

    What to do: Correct the credentials, or wait: the cluster has as many sessions as `max_sessions` allows.
    """


class QueryFailedError(ClusterError):
    """The service answers no such query, or failed at it; asking again does not help.

    What to do: Correct the query or the service's `on_query`; asking again does not help.
    """


class RejectedError(ClusterError):
    """The service refused a request, and changed nothing. Says why.

    What to do: It was executed, and changed nothing. The service says why, in its own words; send something that it
    accepts.
    """

    default_outcome = RequestOutcome.EXECUTED

    def __init__(
        self,
        message: str,
        *,
        log_position: int = -1,
        sequence: int | None = None,
        category: Category | None = None,
    ) -> None:
        super().__init__(message, category=category)
        self.log_position = log_position
        self.sequence = sequence


class AnswerTooLongError(ClusterError):
    """A request was executed; its answer is longer than may be kept, or than the egress takes.

    What to do: Do not send the request again: it was executed. Let the service answer less, or ask with queries in
    parts.
    """

    default_outcome = RequestOutcome.EXECUTED

    def __init__(
        self,
        message: str,
        *,
        log_position: int = -1,
        sequence: int | None = None,
        category: Category | None = None,
    ) -> None:
        super().__init__(message, category=category)
        self.log_position = log_position
        self.sequence = sequence


class AnswerForgottenError(ClusterError):
    """A request was executed before, at `log_position`, and its answer is no longer kept.

    What to do: Do not send the request again: it was executed. Ask the service what became of it, with `query`.
    """

    default_outcome = RequestOutcome.EXECUTED

    def __init__(
        self,
        message: str,
        *,
        log_position: int = -1,
        sequence: int | None = None,
        category: Category | None = None,
    ) -> None:
        super().__init__(message, category=category)
        self.log_position = log_position
        self.sequence = sequence


class RequestIdError(ClusterError):
    """The id of a request was used before, at `log_position`, for another payload: this one was not executed.

    What to do: Give each request an id of its own, and send a request again exactly as it was.
    """

    default_outcome = RequestOutcome.NOT_EXECUTED

    def __init__(self, message: str, *, log_position: int = -1, category: Category | None = None) -> None:
        super().__init__(message, category=category)
        self.log_position = log_position


class IdentityError(ClusterError):
    """A client's identity cannot be used, or no longer: pending requests may or may not have been executed.

    What to do: Look at `error.outcome`. Where it is unknown, ask the service what was executed, then go on with a
    client of another identity; requests with an `id` may be sent again as they were.
    """


class NotSequencedError(ClusterError):
    """A message of `send` is not in the log and never will be; if `is_certain` is False, this is unknown.

    What to do: With `is_certain` send again. Otherwise ask the service first: the message may have been executed.
    """

    def __init__(self, message: str, *, is_certain: bool = True, category: Category | None = None) -> None:
        outcome = RequestOutcome.NOT_EXECUTED if is_certain else RequestOutcome.UNKNOWN
        super().__init__(message, category=category, outcome=outcome)
        self.is_certain = is_certain


class NotLeaderError(ClusterError):
    """This member does not lead.

    What to do: Give the order to the leader, or name all members with `--endpoints`: the leader is found then.
    """


class ServiceError(OrdoError):
    """A failure in or around the user's service.

    What to do: Correct the service; the message says at which input it failed.
    """


class Reject(ServiceError):
    """Raised by a service in `on_session_message`: the message is refused, and nothing was changed.

    Every member refuses it alike; the client gets the text as a RejectedError. To be raised before anything was
    changed, scheduled or sent: nothing is undone.

    What to do: Nothing on the members. The client gets it as a RejectedError.
    """


class ServiceCallError(ServiceError):
    """The service used the cluster in a callback that may not.

    What to do: Move the call to a callback that may make it (SERVICES.md, What may be called from where).
    """


class SnapshotError(ServiceError):
    """A snapshot cannot be taken or read.

    What to do: Correct `on_take_snapshot` and `on_start`: what one writes, the other must read.
    """
