"""Requests of many identities in one session, numbered by their callers, as a gateway sends them.

A gateway keeps nothing that matters, so the caller has what a client's journal has: the identity, the number and the
payload, until it has the answer. All gateways open an identity with the same incarnation, which follows from its name.
So none takes it away from another one, and whichever is asked again gets the answer that was given.

Requests of one identity are sent in the order of their numbers. One whose predecessor is neither sent nor known to be
executed waits, and the cluster is asked how far it is: the predecessor may have come by another gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

from ordo.cluster.client.requests.relay_outcome import Outcome
from ordo.cluster.client.requests.relay_window import EXPIRED, IdentityLine, RelayedRequest, RelayWindow
from ordo.cluster.client.requests.request_sending import RequestSession, encode_open, offer_to_leader
from ordo.cluster.client.requests.request_window import REQUEST_LENGTH_BYTES
from ordo.cluster.client.requests.requests import NO_EPOCH, OPEN_RETRY_NS, RETRY_DOUBLINGS_MAX
from ordo.runtime.native.sentinels import NULL_POSITION
from ordo.service_api.requests import OpenStatus

if TYPE_CHECKING:
    from ordo.cluster.wire import records

CHECK_INTERVAL_NS = 10_000_000
GAP_PATIENCE_NS = 20_000_000
"""A predecessor that is about to come by the same gateway comes sooner than this."""
IDENTITIES_MAX = 16_384
"""So many identities that have nothing under way are remembered; of another one the cluster is asked again."""
IDENTITY_BYTES = 16
NUMBER_MAX = (1 << 62) - 1
_INCARNATION_KEY = b"ordo relay"


class RelayedRequests(RelayWindow):
    """The requests of a session. `work` once a duty cycle sends, and sends again."""

    def __init__(
        self, session: RequestSession, *, retry_interval_ns: int, identities_max: int = IDENTITIES_MAX
    ) -> None:
        self._session = session
        self._retry_interval_ns = retry_interval_ns
        self._identities_max = identities_max
        self._lines: dict[bytes, IdentityLine] = {}
        self._by_incarnation: dict[int, IdentityLine] = {}
        self._by_position: dict[int, IdentityLine] = {}
        self._active: dict[bytes, IdentityLine] = {}
        self._dirty: dict[bytes, IdentityLine] = {}
        self._epoch = NO_EPOCH
        self._check_ns = 0
        self._count = 0

    def __len__(self) -> int:
        """Return the number of requests and questions without an answer."""
        return self._count

    @property
    def has_unsent(self) -> bool:
        return bool(self._dirty)

    # Calls

    def open(self, identity: bytes, on_done: Callable[[RelayedRequest], object]) -> RelayedRequest:
        """Ask how far the cluster is with an identity; when it is done, its `line` knows."""
        line = self._line_of(identity)
        request = RelayedRequest(line, 0, b"", on_done)
        line.openers.append(request)
        line.is_asking = True
        self._activate(line)
        self._count += 1
        return request

    def abandon(self, request: RelayedRequest) -> tuple[Outcome, str]:
        """Forget a request whose caller no longer waits, and return what is known of it."""
        line = request.line
        outcome, text = self._explain(request)
        same = line.openers if request.number == 0 else line.pending.get(request.number, [])
        if request in same:
            same.remove(request)
            self._count -= 1
            if not same:
                line.pending.pop(request.number, None)
            self._retire(line)
        return outcome, text

    def _explain(self, request: RelayedRequest) -> tuple[Outcome, str]:
        line, number = request.line, request.number
        if self._session.leader_ingress is None and not request.is_sent:
            return Outcome.NOT_SENT, "not executed: there is no leader, nothing was sent"
        if not (self._session.takes_messages or request.is_sent):
            return (
                Outcome.NOT_SENT,
                "not executed: the cluster's disks are full, nothing was sent",
            )
        if line.trouble is Outcome.KEPT_TOO_MUCH:
            text = "not executed yet: the cluster keeps as many answers as it may; confirm those that you have"
            return line.trouble, text
        if line.trouble is Outcome.IDENTITIES_FULL:
            return line.trouble, "not executed: the cluster keeps as many identities as it may"
        if line.open_position != NULL_POSITION and number > line.sent + 1 and not request.is_sent:
            missing = next((one for one in range(line.executed + 1, number) if one not in line.pending), number - 1)
            text = f"not executed: number {missing} is missing, and {line.executed} was executed last"
            return Outcome.OUT_OF_ORDER, text
        if not request.is_sent:
            return Outcome.NOT_SENT, "not executed: it could not be sent in time"
        return (
            Outcome.UNKNOWN,
            "unknown: sent, and not answered in time: executed once or not at all; send it again",
        )

    def _make_line(self, identity: bytes) -> IdentityLine:
        digest = blake2b(identity, digest_size=8, key=_INCARNATION_KEY).digest()
        line = IdentityLine(identity, int.from_bytes(digest, "little") >> 1)
        if line.incarnation in self._by_incarnation:
            line.incarnation ^= int.from_bytes(identity[:7], "little") | 1
        self._lines[identity] = line
        self._by_incarnation[line.incarnation] = line
        return line

    def _activate(self, line: IdentityLine) -> None:
        self._active[line.identity] = self._dirty[line.identity] = line

    def _retire(self, line: IdentityLine) -> None:
        """Take a line without anything under way out of the cycle, and forget the oldest of too many such."""
        if not line.is_idle:
            return
        self._active.pop(line.identity, None)
        self._dirty.pop(line.identity, None)
        while len(self._lines) - len(self._active) > self._identities_max:
            oldest = next(one for one in self._lines.values() if one.is_idle)
            self._forget(oldest)

    def _forget(self, line: IdentityLine) -> None:
        del self._lines[line.identity]
        self._by_incarnation.pop(line.incarnation, None)
        self._by_position.pop(line.open_position, None)

    def payload_bytes_max(self, request: RelayedRequest) -> int:
        """Return the longest payload that the cluster takes of an open identity."""
        return self._payload_bytes_max(request.line)

    # Duty cycle

    def work(self, now_ns: int) -> None:
        session = self._session
        if not self._active or session.leader_ingress is None or session.session_id == NULL_POSITION:
            return
        epoch = session.session_id, session.leadership_term_id
        if epoch != self._epoch:
            self._epoch = epoch
            for line in self._lines.values():
                line.begin_epoch()
            for line in self._active.values():
                line.rewind()
                line.is_asking = line.is_asking or line.open_position == NULL_POSITION
            self._dirty.update(self._active)
        for line in list(self._dirty.values()):
            if not self._send_line(line):
                break
            del self._dirty[line.identity]
        if now_ns >= self._check_ns:
            self._check_ns = now_ns + CHECK_INTERVAL_NS
            self._check(now_ns)

    def _check(self, now_ns: int) -> None:
        """Repeat unanswered requests, and ask how far the cluster has executed them."""
        for line in list(self._active.values()):
            if line.retry_ns == 0:
                self._set_retry(line, now_ns)
            elif now_ns >= line.retry_ns and line.identity not in self._dirty:
                line.doublings = min(line.doublings + 1, RETRY_DOUBLINGS_MAX)
                line.rewind()
                line.is_asking = True
                self._dirty[line.identity] = line

    def _set_retry(self, line: IdentityLine, now_ns: int) -> None:
        wait_ns = self._retry_interval_ns
        if line.openers or line.open_position == NULL_POSITION:
            wait_ns = min(wait_ns, OPEN_RETRY_NS)
        elif line.unsent and line.unsent[0] > line.sent + 1 and not line.doublings:
            wait_ns = GAP_PATIENCE_NS
        line.retry_ns = now_ns + (wait_ns << line.doublings)

    def _send_line(self, line: IdentityLine) -> bool:
        """Send the requests that may be sent. Return False if the ingress takes no more."""
        if line.is_asking:
            if not self._send_open(line):
                return False
            line.is_asking = False
            line.retry_ns = 0
        return line.open_position == NULL_POSITION or self._send_requests(line)

    def _send_open(self, line: IdentityLine) -> bool:
        known_position = max(line.open_position, line.known_position)
        return self._offer(encode_open(self._session, line.identity, line.incarnation, known_position))

    def _offer(self, message: bytes) -> bool:
        return self._session.takes_messages and offer_to_leader(self._session, message)

    # Egress

    def on_opened(self, values: records.IdentityOpened, now_ns: int) -> None:
        """Take an IdentityOpened of this session."""
        line = self._by_incarnation.get(values.incarnation)
        if line is None:
            return
        if values.status == OpenStatus.OK:
            self._become_open(line, values)
        elif values.status == OpenStatus.EXPIRED:
            self._lose(line, Outcome.IDENTITY_EXPIRED, EXPIRED)
        elif values.status == OpenStatus.FULL:
            line.trouble = Outcome.IDENTITIES_FULL
            line.retry_ns = 0
            line.is_asking = True
        elif values.status == OpenStatus.SUPERSEDED:
            text = f"identity {line.identity.hex()} was opened by a client that is no gateway since"
            self._lose(line, Outcome.IDENTITY_SUPERSEDED, text)
        else:
            text = f"not executed: identity {line.identity.hex()} belongs to another principal"
            self._lose(line, Outcome.IDENTITY_FORBIDDEN, text)

    def _become_open(self, line: IdentityLine, values: records.IdentityOpened) -> None:
        if line.open_position not in (NULL_POSITION, values.open_position):
            self._lose(line, Outcome.IDENTITY_EXPIRED, EXPIRED)
            return
        self._place(line, values.open_position)
        if values.number < line.owed and values.leadership_term_id == self._session.leadership_term_id:
            line.recede(values.number, values.confirmed)
        line.length_bytes_max = values.length_bytes_max - REQUEST_LENGTH_BYTES
        line.takes_ids = values.takes_ids == 1
        line.executed = max(line.executed, values.number)
        line.sent = max(line.sent, line.executed)
        line.confirmed = max(line.confirmed, values.confirmed)
        line.trouble = Outcome.UNKNOWN
        line.retry_ns = 0
        openers, line.openers = line.openers, []
        for opener in openers:
            self._end(opener, Outcome.EXECUTED, "")
        length_bytes_max = self._payload_bytes_max(line)
        for number in sorted(line.pending):
            for request in list(line.pending[number]):
                if self._refuse_early(line, request, length_bytes_max):
                    line.pending[number].remove(request)
            if not line.pending[number]:
                del line.pending[number]
        if line.is_idle:
            self._retire(line)
        else:
            self._dirty[line.identity] = line

    def _place(self, line: IdentityLine, open_position: int) -> None:
        line.open_position = open_position
        self._by_position[open_position] = line

    def _lose(self, line: IdentityLine, outcome: Outcome, text: str) -> None:
        """Fail all pending requests of an identity. A later request opens it again."""
        lost = line.take_all()
        self._forget(line)
        self._active.pop(line.identity, None)
        self._dirty.pop(line.identity, None)
        for request in lost:
            self._end(request, outcome, text)

    def close(self, text: str) -> None:
        """End all requests: those that were sent may be executed."""
        for line in list(self._active.values()):
            for request in line.take_all():
                self._end(request, Outcome.UNKNOWN if request.is_sent else Outcome.NOT_SENT, text)
        self._active.clear()
        self._dirty.clear()
