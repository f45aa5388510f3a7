"""Ids that callers chose for their requests: what was executed for each, for repeats from any client (docs/CLIENT.md).

Nothing here depends on anything but the records that came before, as in `ordo.service_api.requests`. Ids belong to a
principal: another one neither reads its answers nor takes its ids. The log has digests of ids, of a fixed length.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from ordo.runtime.errors import ConfigurationError, RequestOutcome, SnapshotError

ID_BYTES_MAX = 64
DIGEST_BYTES = 16
ID_CONFLICT = 5
"""Status of an answer: not executed, since the id was used for another payload."""
FORGOTTEN = 6
"""Status of an answer: executed before, at the answer's log position, and the answer is not kept any more."""
FORGOTTEN_TEXT = b"executed before, and its answer is not kept any more"
OK = 0
REJECTED = 1
"""Status of an answer: the service has refused the request. It says so for as long as anything is known of it."""
TOO_LONG = 2
REJECTED_TEXT = b"refused by the service, with no reason that is kept"
KEPT_OVERHEAD_BYTES = 64
"""The bytes that each kept answer takes beside its payload."""
_ROW = struct.Struct("<16s16sqqii")
_NO_PAYLOAD = -1


class RequestIdLimits(NamedTuple):
    """The bounds of the table, the same on every member, since execution depends on them.

    Times in ms of cluster time.
    """

    ids_max: int = 524_288
    """The most ids of all principals together. Beyond it, the principal that has most loses its oldest."""
    timeout: int = 24 * 3_600_000
    """How long an id is remembered after its request was executed."""
    time_min: int = 120_000
    """How long an id is safe from its principal's own new ids, which wait instead of replacing it."""
    answer_bytes_max: int = 64 << 20
    """The most bytes of all kept answers. Beyond it the principal with most loses its oldest; their ids stay."""


class KeptAnswer(NamedTuple):
    """The request that an id was used for. `payload` is None once the answer is no longer kept."""

    payload_digest: bytes
    time: int
    log_position: int
    status: int
    payload: bytes | None


class PrincipalIds(NamedTuple):
    """The ids of one principal in a snapshot, the oldest first, as `unpack_rows` reads them."""

    principal: bytes
    rows: bytes


def check_request_id(request_id: bytes | bytearray | memoryview) -> bytes:
    """Return the id as bytes. Raises ConfigurationError for an invalid id."""
    if not isinstance(request_id, (bytes, bytearray, memoryview)) or not 0 < len(request_id) <= ID_BYTES_MAX:
        what = f"{len(request_id)} bytes" if isinstance(request_id, (bytes, bytearray)) else repr(request_id)
        raise ConfigurationError(
            f"not executed: id of a request: {what}: must be bytes, from 1 to {ID_BYTES_MAX}",
            outcome=RequestOutcome.NOT_EXECUTED,
        )
    return bytes(request_id)


def digest_request_id(request_id: bytes) -> bytes:
    """Return the form in which the log holds a caller's id."""
    return blake2b(request_id, digest_size=DIGEST_BYTES, person=b"ordo request id").digest()


def digest_payload(payload: bytes) -> bytes:
    """Return the digest of a request's payload, which distinguishes it from other payloads."""
    return blake2b(payload, digest_size=DIGEST_BYTES, person=b"ordo payload").digest()


def shed_status(status: int) -> int:
    """Return the status of an answer whose payload is no longer kept."""
    return FORGOTTEN if status in (OK, TOO_LONG) else status


class _Scope:
    """The ids of one principal."""

    __slots__ = ("answered", "ids", "kept_bytes")

    def __init__(self) -> None:
        self.ids: OrderedDict[bytes, KeptAnswer] = OrderedDict()
        self.answered: OrderedDict[bytes, int] = OrderedDict()
        """The bytes of each kept answer, the oldest first."""
        self.kept_bytes = 0


class RequestIds:
    """The table of all principals. If `find` returns None and `make_room` True, `keep` may follow."""

    def __init__(self, limits: RequestIdLimits | None = None) -> None:
        self.limits = limits or RequestIdLimits()
        self.is_in_force = False
        """Whether the log's protocol level has request ids."""
        self.takes_outputs = False
        """Whether it has ids of applications' outputs, too."""
        self.kept_bytes = 0
        self._scopes: dict[bytes, _Scope] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(
        self, principal: bytes, request_id: bytes, payload_digest: bytes, time: int
    ) -> tuple[int, int, bytes] | None:
        """Return (log position, status, payload) if the request has its answer; None for a new request."""
        scope = self._scopes.get(principal)
        kept = scope.ids.get(request_id) if scope is not None else None
        if kept is None or self._has_expired(kept, time):
            return None
        if kept.payload_digest != payload_digest:
            text = b"the id was used for another payload, at log position %d" % kept.log_position
            return kept.log_position, ID_CONFLICT, text
        if kept.payload is None:
            text = REJECTED_TEXT if kept.status == REJECTED else FORGOTTEN_TEXT
            return kept.log_position, shed_status(kept.status), text
        return kept.log_position, kept.status, kept.payload

    def _has_expired(self, kept: KeptAnswer, time: int) -> bool:
        return time - kept.time > self.limits.timeout

    def make_room(self, principal: bytes, time: int) -> bool:
        """Make room for one more id of a principal; return False if it must wait.

        It must when it has as many new ids as allowed.
        """
        own = self._scopes.get(principal)
        if own is not None:
            self._drop_expired(principal, own, time)
        if self._count < self.limits.ids_max:
            return True
        for name, scope in list(self._scopes.items()):
            self._drop_expired(name, scope, time)
        if self._count < self.limits.ids_max:
            return True
        name, scope = max(self._scopes.items(), key=lambda item: (len(item[1].ids), item[0] == principal, item[0]))
        oldest = next(iter(scope.ids))
        if name == principal and time - scope.ids[oldest].time < self.limits.time_min:
            return False
        self._remove(name, scope, oldest)
        return True

    def _drop_expired(self, principal: bytes, scope: _Scope, time: int) -> None:
        while scope.ids and self._has_expired(scope.ids[oldest := next(iter(scope.ids))], time):
            self._remove(principal, scope, oldest)

    def _remove(self, principal: bytes, scope: _Scope, request_id: bytes) -> None:
        self._forget_answer(scope, request_id)
        del scope.ids[request_id]
        self._count -= 1
        if not scope.ids:
            del self._scopes[principal]

    def _forget_answer(self, scope: _Scope, request_id: bytes) -> None:
        length_bytes = scope.answered.pop(request_id, 0)
        scope.kept_bytes -= length_bytes
        self.kept_bytes -= length_bytes

    def keep(
        self,
        principal: bytes,
        request_id: bytes,
        payload_digest: bytes,
        time: int,
        log_position: int,
        status: int,
        payload: bytes,
    ) -> None:
        """Keep the answer of a request with a new id, after its execution."""
        self._add(principal, request_id, KeptAnswer(payload_digest, time, log_position, status, payload))
        while self.kept_bytes > self.limits.answer_bytes_max:
            _, scope = max(self._scopes.items(), key=lambda item: (item[1].kept_bytes, item[0]))
            oldest = next(iter(scope.answered))
            self._forget_answer(scope, oldest)
            scope.ids[oldest] = scope.ids[oldest]._replace(payload=None)

    def _add(self, principal: bytes, request_id: bytes, kept: KeptAnswer) -> None:
        scope = self._scopes.get(principal)
        if scope is None:
            scope = self._scopes[principal] = _Scope()
        elif request_id in scope.ids:
            self._remove(principal, scope, request_id)
            scope = self._scopes.setdefault(principal, scope)
        scope.ids[request_id] = kept
        self._count += 1
        if kept.payload is not None:
            scope.answered[request_id] = length_bytes = len(kept.payload) + KEPT_OVERHEAD_BYTES
            scope.kept_bytes += length_bytes
            self.kept_bytes += length_bytes

    # Snapshots

    def snapshot(self) -> list[PrincipalIds]:
        """Return the ids of each principal, in the principals' order."""
        return [PrincipalIds(name, b"".join(_pack(self._scopes[name]))) for name in sorted(self._scopes)]

    def restore(self, states: Iterable[PrincipalIds], is_in_force: bool, takes_outputs: bool = False) -> None:
        """Restore what `snapshot` returned. Raises SnapshotError for rows that are not whole."""
        self.is_in_force, self.takes_outputs = is_in_force, takes_outputs
        for state in states:
            for request_id, kept in unpack_rows(state.rows):
                self._add(state.principal, request_id, kept)


def _pack(scope: _Scope) -> Iterator[bytes]:
    for request_id, kept in scope.ids.items():
        length_bytes = _NO_PAYLOAD if kept.payload is None else len(kept.payload)
        yield _ROW.pack(request_id, kept.payload_digest, kept.time, kept.log_position, kept.status, length_bytes)
        yield kept.payload or b""


def unpack_rows(rows: bytes) -> Iterator[tuple[bytes, KeptAnswer]]:
    """Yield each id with its answer. Raises SnapshotError for rows that are not whole."""
    offset = 0
    while offset < len(rows):
        if offset + _ROW.size > len(rows):
            raise SnapshotError("snapshot: the ids of requests are cut")
        request_id, digest, time, log_position, status, length_bytes = _ROW.unpack_from(rows, offset)
        offset += _ROW.size
        payload = None if length_bytes == _NO_PAYLOAD else rows[offset : offset + length_bytes]
        if length_bytes < _NO_PAYLOAD or (payload is not None and len(payload) != length_bytes):
            raise SnapshotError("snapshot: an answer of the ids of requests is cut")
        offset += max(length_bytes, 0)
        yield request_id, KeptAnswer(digest, time, log_position, status, payload)
