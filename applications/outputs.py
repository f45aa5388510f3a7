"""Outputs of an application on their way into the log, each once whichever instance sends it (docs/APPLICATIONS.md).

All instances of a group have one identity and one incarnation, and number the same outputs alike. So what one of them
sends as request n the others send as request n too, and the cluster executes the first copy of each number.
"""

from __future__ import annotations

import struct
from collections import deque
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from ordo.cluster.client.requests.request_sending import RequestStamp, offer_to_leader
from ordo.cluster.client.requests.request_window import PendingRequest
from ordo.cluster.client.requests.requests import ClientRequests
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import to_ns
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.runtime.errors import ClusterError, OrdoError
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.runtime.sbe import Message
from ordo.service_api.request_ids import DIGEST_BYTES

if TYPE_CHECKING:
    from ordo.cluster.wire import records

GROUP_INCARNATION = 0
"""The same for all instances that write at the same time: none takes the identity from another."""
OUTPUTS_UNDER_WAY_MAX = 1024
QUESTIONS_MAX = 1024
REFUSED_KEPT_MAX = 4096
NULL_SESSION_ID = -1
_OUTPUT = struct.Struct("<HHHHqqqqqqqqi4x")
_OUTPUT_HEADER = (
    ordo_codecs.OUTPUT.block_length,
    ordo_codecs.OUTPUT.template_id,
    ordo_codecs.SCHEMA_ID,
    ordo_codecs.SCHEMA_VERSION,
)
assert _OUTPUT.size == ordo_codecs.OUTPUT.block_length + 8
_OUTPUT_BY_ID_HEADER = (ordo_codecs.OUTPUT_BY_ID.block_length, *_OUTPUT_HEADER[1:])
assert _OUTPUT.size + DIGEST_BYTES == ordo_codecs.OUTPUT_BY_ID.block_length + 8


def group_identity(group: str) -> bytes:
    """Return the identity of a group's outputs, as `session.identity` shows it to services."""
    return blake2b(group.encode(), digest_size=16, person=b"ordo app group").digest()


class Output(NamedTuple):
    """What an application wrote: the same at every instance of its group."""

    number: int
    """Counted from the group's first output, 1."""
    input_position: int
    """After the record that it answers."""
    output_index: int
    """Among the outputs to this record, from 0."""
    target_session_id: int
    """The client that it is meant for; -1: nobody in particular."""
    payload: bytes
    id_digest: bytes = b""
    """The digest of the id that the application chose, as the log has it; empty without one."""

    def describe(self) -> str:
        return (
            f"input={self.input_position} index={self.output_index} target={self.target_session_id} "
            f"length_bytes={len(self.payload)}"
        )


class RefusedOutput(NamedTuple):
    """An output that the service in the cluster rejected, or whose id was used for another payload.

    It changed nothing there.
    """

    number: int
    """Counted since the group's identity was opened, from 1."""
    log_position: int
    reason: str


class _PendingOutput(PendingRequest):
    __slots__ = ("fields", "id_digest")

    fields: tuple[int, int, int]
    id_digest: bytes


class GroupRequests(ClientRequests):
    """The requests of one instance. Numbers are those of the identity, as the cluster counts them since it was opened.

    Unlike a client's requests they are done when any instance's copy was executed.
    """

    executed = 0
    """Up to this number all were executed, from whichever instance, since the identity was opened."""
    _counted_from = NULL_POSITION

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._encode = self._encode_output
        self.refused: deque[RefusedOutput] = deque(maxlen=REFUSED_KEPT_MAX)
        """Outputs that the service in the cluster refused, and that nobody has taken from here yet."""
        self._refused_numbers: deque[int] = deque(maxlen=OUTPUTS_UNDER_WAY_MAX)
        self.takes_output_ids = False
        """The cluster has said that its log may have outputs with ids."""

    @property
    def failure(self) -> OrdoError | None:
        """The reason why this instance can never write again, or None."""
        return self._failure

    @property
    def open_position(self) -> int:
        """Where the identity was opened; -1 while that is not known."""
        return self._open_position

    @property
    def next_number(self) -> int:
        """The number of the next output."""
        return self._number + 1

    def push(self, output: Output) -> None:
        """Send the next output, and send it again until it was executed.

        Raises ClusterError for one that is too long.
        """
        self._check_length(output.payload, bool(output.id_digest))
        pending = _PendingOutput(output.payload, None, self._wait)
        pending.number = self._number = self._number + 1
        pending.fields = output.input_position, output.target_session_id, output.output_index
        pending.id_digest = output.id_digest
        self._pending[pending.number] = pending

    def note_executed(self, number: int) -> None:
        """All up to this number were executed, from whichever instance."""
        if number <= self.executed:
            return
        if number - self.executed <= len(self._pending):  # else others executed more than is under way here
            for one in range(self.executed + 1, number + 1):
                self._pending.pop(one, None)
        else:
            self._pending = {one: pending for one, pending in self._pending.items() if one > number}
        self.executed = number
        self._number = max(self._number, number)
        self._sent = max(self._sent, number)
        self._doublings = self._retry_ns = 0

    def ask_time(self, now_ns: int) -> None:
        """Ask for a record in the log that has the present time and changes nothing."""
        if self.open_position >= 0 and now_ns >= self._open_due_ns and self._session.leader_ingress is not None:
            self._send_open(now_ns)

    def _note_refused(self, number: int, log_position: int, reason: bytes) -> None:
        """Note a refusal once, however often its answer comes."""
        if number not in self._refused_numbers:
            self._refused_numbers.append(number)
            self.refused.append(RefusedOutput(number, log_position, reason.decode(errors="replace")))

    def _encode_output(self, request: PendingRequest[object], stamp: RequestStamp) -> bytes:
        assert isinstance(request, _PendingOutput)
        header = _OUTPUT_BY_ID_HEADER if request.id_digest else _OUTPUT_HEADER
        head = _OUTPUT.pack(*header, *stamp, request.number, self._confirmed, *request.fields)
        return head + request.id_digest + request.payload

    def _become_open(self, values: records.IdentityOpened, now_ns: int) -> None:
        """Note that the identity is open. If it is another one than before, the cluster counts from the beginning.

        What is under way is to be pushed again with its new numbers.
        """
        if values.open_position != self._counted_from:
            self._pending.clear()
            self._refused_numbers.clear()
            self._number = self._confirmed = self._sent = self.executed = 0
        self._open_position = self._counted_from = values.open_position
        self.takes_output_ids = self.takes_output_ids or values.takes_output_ids == 1
        self._length_bytes_max = values.length_bytes_max - _OUTPUT.size
        self.note_executed(values.number)
        self._rewind()

    def _miss_executed(self, values: records.IdentityOpened) -> None:
        """Begin where the cluster is: what was executed behind that is pushed again, and is the same as before."""
        self._pending.clear()
        self._refused_numbers.clear()
        self._number = self._confirmed = self._sent = self.executed = values.number
        self._rewind()

    def on_answer(
        self, open_position: int, number: int, log_position: int, status: int, payload: bytes, sequence: int = 0
    ) -> None:
        if open_position == self._open_position and status not in (AnswerStatus.WAIT, AnswerStatus.UNKNOWN):
            if status in (AnswerStatus.REJECTED, AnswerStatus.ID_CONFLICT):
                self._note_refused(number, log_position, payload)
            self.note_executed(number)
        else:
            super().on_answer(open_position, number, log_position, status, payload, sequence)


class OutputClient(ClusterClient):
    """A session whose requests are the outputs of one instance of a group; created with `wait=False`."""

    def __init__(
        self,
        *arguments: Any,
        make_requests: type[GroupRequests] = GroupRequests,
        incarnation: int = GROUP_INCARNATION,
        **settings: Any,
    ) -> None:
        """Create the session. `make_requests` and `incarnation` are for groups of which one instance writes."""
        super().__init__(*arguments, **settings, wait=False)
        self.outputs = make_requests(
            self._current,
            identity=self.settings.identity,
            incarnation=incarnation,
            retry_interval_ns=to_ns(self.settings.request_retry_interval_s),
            outstanding_max=OUTPUTS_UNDER_WAY_MAX,
            wait=_refuse_to_wait,
        )
        self.questions: deque[records.GroupQuestion] = deque(maxlen=QUESTIONS_MAX)
        """Queries that the leader has handed to this instance, as GroupQuestions; the oldest go where none takes
        them."""
        self._requests = self.outputs
        self._loop.set_on_answer(self.outputs.on_answer)
        self._work_at_polls()

    def send_outputs(self, now_ns: int) -> None:
        """Send the outputs that were pushed, without waiting for the next `poll`."""
        self.outputs.work(now_ns)
        if self.unsent:
            self.flush()

    def offer_report(self, message: bytes) -> bool:
        """Send a report of this instance; False when the leader takes none now."""
        return self._current.takes_messages and offer_to_leader(self._current, message)

    def offer_unlogged(self, message: bytes) -> bool:
        """Send the leader a message that takes no place in the log.

        Such a message is taken while others are not, and keeps no session alive.
        """
        ingress = self._current.leader_ingress
        return ingress is not None and ingress.offer(message) > 0

    @property
    def message_bytes_max(self) -> int:
        """Longest message that the leader's ingress takes; 0 while there is none."""
        ingress = self._current.leader_ingress
        return 0 if ingress is None else ingress.max_message_length

    def _on_other_event(self, table: Message, values: Any) -> None:
        if table is ordo_codecs.GROUP_QUESTION:
            self.questions.append(values)


def _refuse_to_wait(_: PendingRequest, __: float | None) -> None:
    raise ClusterError("outputs are not waited for")
