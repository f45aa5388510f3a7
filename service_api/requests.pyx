"""The table of executed requests and their answers. See requests.pxd.

Nothing here depends on anything but the records that came before: every member that has executed the same log says the
same of each request. Numbers of one identity are executed in order and without gaps, so one number tells what was
executed, and answers are kept only above what the client says it has.

From protocol level 3 on (`RequestIds.is_in_force`), whether a request is executed does not depend on how long answers
are, for the log does not say that, and of several services one alone keeps answers: what is too much is not kept.
"""

from libc.stdint cimport int32_t, int64_t

from ordo.runtime.native.time_units cimport cluster_time_ms

from enum import IntEnum
from typing import NamedTuple

from ordo.runtime.errors import SnapshotError
from ordo.service_api.request_ids import (
    FORGOTTEN,
    FORGOTTEN_TEXT,
    REJECTED,
    REJECTED_TEXT,
    RequestIds,
    digest_payload,
    shed_status,
)

cdef enum:
    ANSWER_OVERHEAD_BYTES = 160        # of a kept answer, whatever its length


NO_IDENTITY = -1
"""As `known_position`: the identity is opened only if there is none of that name yet."""


class RequestLimits(NamedTuple):
    """The bounds of the table, the same on every member, since execution depends on them. Times in ms of cluster
    time, whatever its unit."""

    identities_max: int = 16_384
    idle_timeout: int = 7 * 24 * 3_600_000
    """How long an identity may be silent before it has expired."""
    idle_timeout_crowded: int = 3_600_000
    """When there are `identities_max`, the one silent for longest makes room for a new one, if silent for this long."""
    answers_max: int = 65_536
    """Of one identity."""
    identity_bytes_max: int = 16 << 20
    """Of one identity's answers, in a log below protocol level 3: its requests wait beyond it."""
    kept_bytes_max: int = 256 << 20
    """Of all answers. In a log below protocol level 3 requests wait beyond it; from it on whoever has most loses its
    oldest, and requests wait only where the answers would be too much without their payloads; from level 5 on those of
    one authenticated principal wait from three quarters of that."""
    answer_bytes_max: int = 1 << 20


class OpenStatus(IntEnum):
    """The outcome of an OpenIdentity; travels as i32."""

    OK = 0
    EXPIRED = 1
    """The client has used the identity before, and the cluster does not know it any more: what was under way may be
    executed."""
    SUPERSEDED = 2
    """Another client has opened it since."""
    FULL = 3
    """The cluster keeps as many identities as it may."""
    FORBIDDEN = 4
    """The identity belongs to another principal."""


class IdentityState(NamedTuple):
    """One identity in a snapshot, with (number, log position, status, payload) of each answer that is kept."""

    identity: bytes
    principal: bytes
    incarnation: int
    open_position: int
    number: int
    confirmed: int
    last_time: int
    answers: list


cdef class PrincipalAnswers:
    pass


cdef class Identity:
    def __init__(self, bytes identity not None, bytes principal not None, int64_t incarnation, int64_t open_position,
                 int64_t number, int64_t confirmed, int64_t last_time):
        self.identity = identity
        self.principal = principal
        self.incarnation = incarnation
        self.open_position = open_position
        self.number = number
        self.confirmed = confirmed
        self.last_time = last_time
        self._answers = {}

    def get_answer(self, int64_t number):
        """Return (log position, status, payload) of a request; None when nothing is kept of it."""
        answer = self._answers.get(number)
        if answer is None or answer[2]:
            return None if answer is None else answer[:3]
        text = FORGOTTEN_TEXT if answer[1] == FORGOTTEN else REJECTED_TEXT if answer[1] == REJECTED else b""
        return answer[0], answer[1], text

    def get_sequence(self, int64_t number):
        """Return the number that an executed request has among the messages of the log; 0 where it is not known any more:
        snapshots do not hold it."""
        answer = self._answers.get(number)
        return 0 if answer is None else answer[3]

    def _state(self):
        answers = [(number, *answer[:3]) for number, answer in sorted(self._answers.items())]
        return IdentityState(self.identity, self.principal, self.incarnation, self.open_position, self.number,
                             self.confirmed, self.last_time, answers)

    def __repr__(self):
        return f"Identity({self.identity.hex()}, open_position={self.open_position}, number={self.number})"


cdef class RequestTable:
    def __init__(self, limits=None, id_limits=None):
        self.limits = limits or RequestLimits()
        self.ids = RequestIds(id_limits)
        self._by_position = {}
        self._by_identity = {}
        self._by_principal = {}
        self.answer_bytes_max = self.limits.answer_bytes_max
        self._kept_bytes_max = self.limits.kept_bytes_max
        self._identity_bytes_max = self.limits.identity_bytes_max
        self._answers_max = self.limits.answers_max
        self._principal_answers_max = self.limits.kept_bytes_max // 4 * 3 // ANSWER_OVERHEAD_BYTES
        self._idle_timeout = self.limits.idle_timeout

    def __len__(self):
        return len(self._by_identity)

    def __iter__(self):
        return iter([self._by_position[position] for position in sorted(self._by_position)])

    # Opening

    def open(self, bytes name not None, bytes principal not None, int64_t incarnation, int64_t known_position,
             int64_t position, int64_t timestamp):
        """Execute an OpenIdentity; return (OpenStatus, Identity or None). `known_position`: only the identity that was
        opened there is taken over; 0: whichever there is; NO_IDENTITY: none."""
        cdef Identity identity = self._by_identity.get(name)
        cdef int64_t time = cluster_time_ms(timestamp)
        if identity is not None and self._has_expired(identity, time):
            self._remove(identity)
            identity = None
        if identity is None:
            if known_position > 0:
                return OpenStatus.EXPIRED, None
            if len(self._by_identity) >= self.limits.identities_max and not self._make_room(time):
                return OpenStatus.FULL, None
            identity = Identity(name, principal, incarnation, position, 0, 0, time)
            self._add(identity)
            return OpenStatus.OK, identity
        if identity.principal != principal:
            return OpenStatus.FORBIDDEN, None
        identity.last_time = time
        if identity.incarnation == incarnation:
            return OpenStatus.OK, identity
        if known_position != 0 and known_position != identity.open_position:
            return OpenStatus.SUPERSEDED, None
        del self._by_position[identity.open_position]
        identity.incarnation, identity.open_position = incarnation, position
        self._by_position[position] = identity
        return OpenStatus.OK, identity

    cdef bint _has_expired(self, Identity identity, int64_t time):
        return time - identity.last_time > self._idle_timeout

    def _make_room(self, time):
        """Remove what has expired; otherwise the identity that was silent longest, if that is long enough. Returns
        False if neither exists."""
        expired = [identity for identity in self if self._has_expired(identity, time)]
        if not expired:
            oldest = min(self, key=lambda identity: identity.last_time)
            if time - oldest.last_time > self.limits.idle_timeout_crowded:
                expired = [oldest]
        for identity in expired:
            self._remove(identity)
        return bool(expired)

    def _add(self, Identity identity):
        identity._of_principal = self._by_principal.setdefault(identity.principal, PrincipalAnswers())
        identity._of_principal.identity_count += 1
        self._by_identity[identity.identity] = identity
        self._by_position[identity.open_position] = identity

    def _remove(self, Identity identity):
        del self._by_identity[identity.identity]
        del self._by_position[identity.open_position]
        self.kept_bytes -= identity.kept_bytes
        self._answer_count -= identity.number - identity.confirmed
        identity._of_principal.answer_count -= identity.number - identity.confirmed
        identity._of_principal.identity_count -= 1
        if identity._of_principal.identity_count == 0:
            del self._by_principal[identity.principal]

    # Requests

    cdef Identity find(self, int64_t open_position, bytes principal, int64_t timestamp):
        """Return the identity whose requests name this open position; None when it is nobody's any more, or not this
        principal's."""
        cdef Identity identity = self._by_position.get(open_position)
        if identity is None or identity.principal != principal:
            return None
        if self._has_expired(identity, cluster_time_ms(timestamp)):
            self._remove(identity)
            return None
        return identity

    cdef int admit(self, Identity identity, int64_t number, int64_t confirmed, int64_t timestamp) except -1:
        """Return what is to be done with a request; after EXECUTE, `keep` or `admit_by_id` must follow."""
        identity.last_time = cluster_time_ms(timestamp)
        self._request_id = None
        self._confirm(identity, min(confirmed, identity.number))
        if number <= identity.number:
            return REPEATED if number > identity.confirmed else OUT_OF_ORDER
        if number != identity.number + 1:
            return OUT_OF_ORDER
        return WAIT if self._is_full(identity) else EXECUTE

    cdef bint _is_full(self, Identity identity) except -1:
        if identity.number - identity.confirmed >= self._answers_max:
            return True
        if (identity._of_principal.answer_count >= self._principal_answers_max and identity.principal
                and self.ids.takes_outputs):  # from protocol level 5 on a principal leaves a quarter to the others
            return True
        if self.kept_bytes < self._kept_bytes_max and identity.kept_bytes < self._identity_bytes_max:
            return False
        return not self.ids.is_in_force or self._answer_count * ANSWER_OVERHEAD_BYTES >= self._kept_bytes_max

    cdef int admit_by_id(self, Identity identity, bytes request_id, bytes payload) except -1:
        """Admit a request as `admit` does, for one that it let through and that has an id. REPEATED: the answer is that
        of the id, and kept for the number."""
        cdef bytes digest = digest_payload(payload)
        found = self.ids.find(identity.principal, request_id, digest, identity.last_time)
        if found is not None:
            self.keep(identity, found[0], found[1], found[2])
            return REPEATED
        if not self.ids.make_room(identity.principal, identity.last_time):
            return WAIT
        self._request_id, self._payload_digest = request_id, digest
        return EXECUTE

    def judge(self, int64_t open_position, bytes principal not None, int64_t number, int64_t confirmed, int64_t timestamp,
              bytes request_id=b"", bytes payload=b""):
        """Return the identity if its request is to be executed, otherwise None; for those that follow a log, it decides
        what `find`, `admit` and `admit_by_id` decide. `note` must follow. `request_id`: the digest of the id that the
        caller chose, if any."""
        cdef Identity identity = self.find(open_position, principal, timestamp)
        if identity is None or self.admit(identity, number, confirmed, timestamp) != EXECUTE:
            return None
        return identity if not request_id or self.admit_by_id(identity, request_id, payload) == EXECUTE else None

    def get(self, int64_t open_position):
        """Return the identity whose requests name this open position, or None when it is nobody's any more."""
        return self._by_position.get(open_position)

    def note(self, Identity identity not None, int64_t log_position, int32_t status, bytes payload not None,
             int64_t sequence=0):
        """Keep the answer of a request that `judge` let through, after its execution, and its number in the log."""
        self.keep(identity, log_position, status, payload, sequence)

    cdef int _confirm(self, Identity identity, int64_t number) except -1:
        cdef int64_t length_bytes
        while identity.confirmed < number:
            identity.confirmed += 1
            length_bytes = len((<tuple> identity._answers.pop(identity.confirmed))[2])
            identity._payload_bytes -= length_bytes
            identity.kept_bytes -= length_bytes + ANSWER_OVERHEAD_BYTES
            self.kept_bytes -= length_bytes + ANSWER_OVERHEAD_BYTES
            self._answer_count -= 1
            identity._of_principal.answer_count -= 1
        return 0

    cdef int keep(self, Identity identity, int64_t log_position, int32_t status, bytes payload,
                  int64_t sequence=0) except -1:
        """Note that the next request of an identity was executed, or that its answer is that of its id. `sequence`: its
        number among the messages of the log; 0 where it is not known."""
        identity.number += 1
        self._keep(identity, identity.number, log_position, status, payload, sequence)
        if self._request_id is not None:
            request_id, self._request_id = self._request_id, None
            self.ids.keep(identity.principal, request_id, self._payload_digest, identity.last_time, log_position, status,
                          payload)
        if self.kept_bytes > self._kept_bytes_max and self.ids.is_in_force:
            self._shed()
        return 0

    def _keep(self, Identity identity, number, log_position, status, bytes payload not None, sequence=0):
        cdef int64_t length_bytes = len(payload)
        identity._answers[number] = (log_position, status, payload, sequence)
        identity._payload_bytes += length_bytes
        identity.kept_bytes += length_bytes + ANSWER_OVERHEAD_BYTES
        self.kept_bytes += length_bytes + ANSWER_OVERHEAD_BYTES
        self._answer_count += 1
        identity._of_principal.answer_count += 1

    def _shed(self):
        """Drop the older half of the payloads of the identity with most, a half so that this is done seldom. It stays known
        that their requests were executed, and where."""
        cdef Identity identity
        cdef int64_t goal
        while self.kept_bytes > self._kept_bytes_max:
            identity = max(self._by_position.values(), key=_rank)
            goal = identity._payload_bytes // 2
            if identity._payload_bytes == 0:
                return
            while identity._payload_bytes > goal:
                self._shed_oldest(identity)

    cdef int _shed_oldest(self, Identity identity) except -1:
        cdef tuple answer
        cdef int64_t length_bytes = 0
        identity._shed_number = max(identity._shed_number, identity.confirmed)
        while length_bytes == 0:
            identity._shed_number += 1
            answer = identity._answers[identity._shed_number]
            length_bytes = len(answer[2])
        identity._answers[identity._shed_number] = (answer[0], shed_status(answer[1]), b"", answer[3])
        identity._payload_bytes -= length_bytes
        identity.kept_bytes -= length_bytes
        self.kept_bytes -= length_bytes
        return 0

    # Snapshots

    def snapshot(self):
        """Return an IdentityState for each identity, in order of open position."""
        return [(<Identity> identity)._state() for identity in self]

    def restore(self, states):
        """Restore what `snapshot` returned. Raises SnapshotError when answers are missing."""
        cdef Identity identity
        for state in states:
            identity = Identity(*state[:7])
            self._add(identity)
            if [answer[0] for answer in state.answers] != list(range(identity.confirmed + 1, identity.number + 1)):
                raise SnapshotError(f"snapshot: answers of {identity!r} are missing")
            for number, log_position, status, payload in state.answers:
                self._keep(identity, number, log_position, status, payload)


def _rank(Identity identity not None):
    """Return the order in which identities lose payloads; of two with as much, the one opened last loses first."""
    return identity._payload_bytes, identity.open_position
