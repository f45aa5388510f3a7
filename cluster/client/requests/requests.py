"""Requests of a cluster client: executed once and answered, whatever fails (docs/CLIENT.md).

A request has a number of the client's identity. It is kept until it is answered, and sent again after a change of the
leader, with a new session, after a restart with a journal, and when nothing was heard for a while; always all of them,
in order, from the lowest that is not answered. The cluster executes each number once, in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ordo.cluster.client.requests.request_sending import RequestSession, encode_open, offer_to_leader
from ordo.cluster.client.requests.request_window import REQUEST_LENGTH_BYTES, PendingRequest, RequestWindow
from ordo.cluster.wire.levels import describe_want_of_request_ids
from ordo.cluster.wire.ordo_codecs import AnswerStatus
from ordo.runtime.errors import (
    AnswerForgottenError,
    AnswerTooLongError,
    ClusterError,
    ClusterTimeoutError,
    IdentityError,
    OrdoError,
    OtherClusterError,
    RejectedError,
    RequestIdError,
    RequestOutcome,
    StorageError,
)
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.service_api.requests import OpenStatus

if TYPE_CHECKING:
    from ordo.cluster.client.requests.journal import Journal
    from ordo.cluster.wire import records
    from ordo.cluster.wire.known_cluster import KnownCluster

NO_EPOCH = (-1, -1)
RETRY_DOUBLINGS_MAX = 3
OPEN_RETRY_NS = 250_000_000
ID_PATIENCE_NS = 3_000_000_000
"""A cluster that has begun a moment ago may not take ids yet."""


class ClientRequests(RequestWindow):
    """The requests of one identity. `work` once a duty cycle sends, and sends again."""

    def __init__(
        self,
        session: RequestSession,
        *,
        identity: bytes,
        incarnation: int,
        retry_interval_ns: int,
        outstanding_max: int,
        journal: Journal | None = None,
        wait: Callable[[PendingRequest[object], float | None], None],
    ) -> None:
        """Take the session.

        `wait(pending, timeout_s)` returns when a request is done, or raises. `journal` overrules identity and
        incarnation with its own.
        """
        self._session = session
        self.identity = identity
        self._incarnation = incarnation
        self._retry_interval_ns = retry_interval_ns
        self.outstanding_max = outstanding_max
        self._journal = journal
        self._wait = wait
        self._known_position = 0
        self._open_position = NULL_POSITION
        self._length_bytes_max = 0
        self._number = 0
        self._sent = 0
        self._confirmed = 0
        self._pending = {}
        self._unnumbered = deque()
        self._encode = None
        self._takes_ids = False
        self._ids_due_ns = 0
        self._epoch = NO_EPOCH
        self._open_due_ns = 0
        self._retry_ns = 0  # 0: counted from the next call of `work`, for there was progress
        self._doublings = 0
        self._failure: OrdoError | None = None
        self.trouble = "no answer"
        self.recovered: list[PendingRequest] = []
        self.known_cluster: KnownCluster | None = None
        """That of the journal."""
        if journal is not None:
            self._recover(journal)

    def _recover(self, journal: Journal) -> None:
        state = journal.recover(self.identity, self._incarnation)
        self.identity, self._incarnation = state.identity, state.incarnation
        self._known_position, self._length_bytes_max = state.open_position, state.length_bytes_max
        self._number, self._confirmed = state.number, state.confirmed
        self.known_cluster = journal.known_cluster()
        for number, payload in sorted(state.requests.items()):
            pending: PendingRequest = PendingRequest(payload, None, self._wait, state.ids.get(number))
            pending.number = number
            pending.was_sent = True  # by the process before, perhaps
            self._pending[number] = pending
            self.recovered.append(pending)
        self._sent = self._confirmed

    # Calls

    @property
    def under_way(self) -> list[PendingRequest[object]]:
        """The requests without an answer, in their order."""
        return [*self._pending.values(), *self._unnumbered]

    # Duty cycle

    @property
    def _is_open(self) -> bool:
        return self._open_position != NULL_POSITION

    def work(self, now_ns: int) -> None:
        session = self._session
        if session.leader_ingress is None or self._failure is not None or session.session_id == NULL_POSITION:
            return
        self._note_confirmed()
        epoch = session.session_id, session.leadership_term_id
        if epoch != self._epoch:
            self._epoch = epoch
            self._open_due_ns = 0
            self._doublings = 0
            self._owe()
            self._rewind()
        if not self._is_open:
            if now_ns >= self._open_due_ns:
                self._send_open(now_ns)
            return
        if not session.takes_messages:
            return
        if self._unnumbered and now_ns >= self._open_due_ns:
            self._send_open(now_ns)
        if self._sent <= self._confirmed:
            self._retry_ns = 0  # of what is sent after a rest
        elif self._retry_ns and now_ns >= self._retry_ns:
            self._doublings = min(self._doublings + 1, RETRY_DOUBLINGS_MAX)
            self._rewind()
            if self._owed > 0 and now_ns >= self._open_due_ns:
                self._send_open(now_ns)  # one number that it lacks, and it answers nothing behind that
        if self._sent < self._number:
            self._send_from(self._sent + 1)
        if self._retry_ns == 0 and self._sent > self._confirmed:
            self._retry_ns = now_ns + (self._retry_interval_ns << self._doublings)

    def _rewind(self) -> None:
        """Mark everything without an answer to be sent again."""
        self._sent = self._confirmed
        self._retry_ns = 0

    def _note_confirmed(self) -> None:
        """Note that the application has taken every answer given before this call."""
        lowest = next(iter(self._pending), self._number + 1)
        if lowest - 1 == self._confirmed:
            return
        self._confirmed = lowest - 1
        self._sent = max(self._sent, self._confirmed)
        if self._journal is not None:
            self._journal.confirm(self._confirmed)

    def _send_open(self, now_ns: int) -> None:
        message = encode_open(self._session, self.identity, self._incarnation, self._known_position)
        if offer_to_leader(self._session, message):
            self._open_due_ns = now_ns + OPEN_RETRY_NS

    # Egress

    def on_opened(self, values: records.IdentityOpened, now_ns: int) -> None:
        """Take an IdentityOpened of this session."""
        if values.incarnation != self._incarnation or self._failure is not None:
            return
        if self._is_open:
            if values.status == OpenStatus.OK and values.open_position == self._open_position:
                self._check_owed(values)
                self._number_waiting(values, now_ns)
        elif values.status == OpenStatus.OK:
            self._become_open(values, now_ns)
        elif values.status == OpenStatus.EXPIRED:
            self._lose_identity()
        elif values.status == OpenStatus.FULL:
            self.trouble = "the cluster keeps as many identities as it may"
        elif values.status == OpenStatus.SUPERSEDED:
            self.fail(IdentityError(f"identity {self.identity.hex()} was opened by another client since"))
        else:
            self.fail(IdentityError(f"identity {self.identity.hex()} belongs to another principal"))

    def _check_owed(self, values: records.IdentityOpened) -> None:
        """Note whether the cluster has executed what was answered before this session and term began.

        What an earlier leader said is left out: it may come late.
        """
        if values.leadership_term_id != self._session.leadership_term_id:
            return
        if values.number < self._settle():
            self._miss_executed(values)

    def _miss_executed(self, values: records.IdentityOpened) -> None:
        """End: the cluster lacks requests that were answered, so it never executes what comes behind them."""
        text = f"the cluster has executed requests of identity {self.identity.hex()} up to number {values.number}"
        known = max(self._confirmed, self.answered.newest)
        if lost := self.answered.above(max(values.number, 0), self._confirmed):
            self.fail(_tell_lost(OtherClusterError(text), lost))
        else:
            self.fail(OtherClusterError(f"{text}, and had executed up to {known} before"))

    def _number_waiting(self, values: records.IdentityOpened, now_ns: int) -> None:
        """Give numbers to the requests that wait for one.

        One with an id waits, and those after it, while the cluster may be about to take ids.
        """
        self._takes_ids = self._takes_ids or values.takes_ids == 1
        while self._unnumbered:
            pending = self._unnumbered[0]
            if pending.id is not None and not self._takes_ids:
                self._ids_due_ns = self._ids_due_ns or now_ns + ID_PATIENCE_NS
                self.trouble = describe_want_of_request_ids()
                if now_ns < self._ids_due_ns:
                    break
                error = ClusterTimeoutError(describe_want_of_request_ids()).for_request(RequestOutcome.NOT_EXECUTED)
                self._unnumbered.popleft().finish(None, error)
                continue
            self._unnumbered.popleft()
            try:
                self._check_length(pending.payload, pending.id is not None)
                self._take_number(pending)
            except (ClusterError, StorageError) as refusal:
                pending.finish(None, refusal)

    def _become_open(self, values: records.IdentityOpened, now_ns: int) -> None:
        if self._number == 0:
            self._number = self._confirmed = self._sent = self.answered.begins_after = values.number
        elif values.number > self._number:
            self.fail(
                IdentityError(
                    f"the journal ends at request {self._number}, the cluster has executed {values.number} of identity "
                    f"{self.identity.hex()}: it is an old copy, or was not synced before a power loss"
                )
            )
            return
        if values.number < max(self._confirmed, self.answered.newest):
            self._miss_executed(values)
            return
        self._settle()
        self._open_position = self._known_position = values.open_position
        self._length_bytes_max = values.length_bytes_max - REQUEST_LENGTH_BYTES
        if self._journal is not None:
            self._journal.open(self._open_position, self._length_bytes_max, self._number)
        for number in [number for number in self._pending if number <= values.confirmed]:
            text = "executed: it was answered before, and the journal has lost that it was"
            self._pending.pop(number).finish(None, IdentityError(text, outcome=RequestOutcome.EXECUTED))
        self._number_waiting(values, now_ns)
        self._rewind()
        self.work(now_ns)

    def _lose_identity(self) -> None:
        """Replace an identity that has expired. Requests under way may have been executed, or not."""
        error = IdentityError(f"identity {self.identity.hex()} has expired in the cluster")
        lost = list(self._pending.values())
        self._pending.clear()
        self._number = self._confirmed = self._sent = self._known_position = 0
        self._open_due_ns = 0
        self.answered.clear()
        self._settle()
        if self._journal is not None:
            self._journal.begin_again(self.identity, self._incarnation)
        for pending in lost:
            pending.finish(None, error.for_request(_outcome_of(pending)))

    def _on_other_answer(
        self, number: int, log_position: int, status: int, payload: bytes, sequence: int | None
    ) -> None:
        """Take an answer that is not the service's."""
        if status == AnswerStatus.WAIT:
            self.trouble = payload.decode(errors="replace")
            return
        if status == AnswerStatus.UNKNOWN:
            self._open_position = NULL_POSITION
            self._open_due_ns = 0
            return
        pending = self._pending.get(number)
        if pending is None:
            return
        self._note_answer(number, log_position)
        del self._pending[number]
        self._doublings = 0
        self._retry_ns = 0
        pending.finish(None, _error_of(status, payload.decode(errors="replace"), log_position, sequence))

    def tell_lost(self, error: OtherClusterError) -> OtherClusterError:
        """Return the error of a client whose addresses lead to another cluster, with what that one has lost of it."""
        return error if error.kept_position is None else _tell_lost(error, self.answered.behind(error.kept_position))

    def note_cluster(self, known: KnownCluster) -> None:
        """Note which cluster the session is of; the journal keeps it."""
        if self._journal is not None and known.origin is not None:
            self._journal.note_cluster(known.origin, known.position)

    def timeout(self, pending: PendingRequest[object]) -> ClusterTimeoutError:
        """Return the error of a wait that was too short; the request continues."""
        name = f"request {pending.number}" if pending.number else "request"
        error = ClusterTimeoutError(
            f"{name} not answered in time, unknown whether it was executed: it is still under way; wait for it with "
            f"error.pending.result(): {self.trouble}",
            outcome=RequestOutcome.UNKNOWN,
        )
        error.pending = pending
        return error

    def fail(self, error: OrdoError) -> None:
        """Fail all requests, because the identity or the client can no longer be used. A journal stays unchanged."""
        self._failure = error
        lost = [*self._pending.values(), *self._unnumbered]
        self._pending.clear()
        self._unnumbered.clear()
        for pending in lost:
            is_kept = self._journal is not None and pending.number > 0  # who has the journal next has it executed
            pending.finish(None, error.for_request(_outcome_of(pending, is_kept)))

    def close(self, error: OrdoError) -> None:
        """Fail the requests without an answer with this error; they stay in the journal. Idempotent."""
        try:
            if self._failure is None:
                self._note_confirmed()
                self.fail(error)
        finally:
            if self._journal is not None:
                self._journal.close()
                self._journal = None


def _outcome_of(pending: PendingRequest[object], is_kept: bool = False) -> RequestOutcome:
    """Return the outcome, as far as known, of a request that ends without an answer; a journal may keep it."""
    return RequestOutcome.UNKNOWN if pending.was_sent or is_kept else RequestOutcome.NOT_EXECUTED


def _tell_lost(error: OtherClusterError, lost: list[int]) -> OtherClusterError:
    """Return the error with the numbers of the requests that were answered, and that the cluster lacks."""
    if not lost or error.lost_requests:
        return error
    if len(lost) == 1:
        which = f"request {lost[0]}, which was"
    else:
        which = f"{len(lost)} requests from {lost[0]} to {lost[-1]}, which were"
    return OtherClusterError(
        f"{error.message}; it lacks {which} answered before",
        kept_position=error.kept_position,
        lost_requests=tuple(lost),
    )


def _error_of(status: int, text: str, log_position: int, sequence: int | None) -> ClusterError:
    """Return the error for the status of an answer that is not the service's."""
    if status == AnswerStatus.REJECTED:
        return RejectedError(text, log_position=log_position, sequence=sequence)
    if status == AnswerStatus.ID_CONFLICT:
        return RequestIdError(f"not executed: {text}", log_position=log_position)
    if status == AnswerStatus.FORGOTTEN:
        return AnswerForgottenError(text, log_position=log_position, sequence=sequence)
    return AnswerTooLongError(f"executed; {text}", log_position=log_position, sequence=sequence)
