"""The journal of a client: its identity and the requests that are not answered, in a file that outlives the process.

    record   u32 length of the rest | u32 CRC-32 of the rest | u8 kind | body
    IDENTITY    16 bytes identity, i64 incarnation: the first record, and what was before it is forgotten
    OPENED      i64 open position, i64 longest payload, i64 number of the last request
    REQUEST     i64 number, payload
    CONFIRMED   i64 number: everything up to it was answered, and the application has seen it
    REQUEST_BY_ID   i64 number, u8 length of the id, id, payload
    CLUSTER     16 bytes identity of the cluster, i64 where that begins in its log, i64 up to where the log is known
    ANSWERED    any number of: i64 number, i64 log position. In the file before the application sees the answer
    BEGUN       i64 number: those up to it are of another client, which had the identity before

Little endian. A request is in the file before it is sent. What is torn at the end was not sent, and is cut off. Damage
with whole records behind it is no torn end: what it took was sent perhaps, and may be lost, so the file is refused, and
left as it is. The file is written anew when most of it is of no use any more.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from ordo.cluster.client.requests.answered import AnsweredRequests
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin as LogOrigin
from ordo.runtime.agents.use import Origin, watch
from ordo.runtime.errors import ConfigurationError, StorageError, StorageInUseError
from ordo.runtime.io.durable_files import sync_folder

IDENTITY = 1
OPENED = 2
REQUEST = 3
CONFIRMED = 4
REQUEST_BY_ID = 5
CLUSTER = 6
ANSWERED = 7
BEGUN = 8
"""Releases that do not know this one or the one before leave it out."""
COMPACT_BYTES_MIN = 1 << 20
_HEAD = struct.Struct("<II")
_IDENTITY = struct.Struct("<B16sq")
_OPENED = struct.Struct("<Bqqq")
_NUMBER = struct.Struct("<Bq")
_CLUSTER = struct.Struct("<B16sqq")
_NUMBER_AND_LENGTH = struct.Struct("<BqB")
_ANSWERED = struct.Struct("<Bqq")
_ANSWERED_ROW = struct.Struct("<qq")


@dataclass
class JournalState:
    """The content of a journal."""

    identity: bytes
    incarnation: int
    open_position: int = 0
    length_bytes_max: int = 0
    number: int = 0
    confirmed: int = 0
    requests: dict[int, bytes] = field(default_factory=dict)
    ids: dict[int, bytes] = field(default_factory=dict)
    """The ids of those requests that have one."""
    cluster: LogOrigin | None = None
    """Which cluster they are for; None: it has not said."""
    known_position: int = 0
    """Up to here the client knows of its log."""
    answered: AnsweredRequests = field(default_factory=AnsweredRequests, compare=False)


class JournalStore(Protocol):
    """Bytes that outlive the process."""

    def read(self) -> bytes: ...
    def append(self, data: bytes) -> None: ...
    def sync(self) -> None:
        """Return once everything appended so far is on disk."""

    def replace(self, data: bytes) -> None:
        """Replace the content atomically; the new content is on disk when this returns."""

    def close(self) -> None: ...


class JournalFile:
    """A file that one process has at a time. Raises StorageInUseError, or StorageError when it cannot be used."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._errors():
            self._descriptor = self._open(path, os.O_CREAT)
            if os.fstat(self._descriptor).st_ino != os.stat(path).st_ino:  # replaced while it was being opened
                os.close(self._descriptor)
                raise StorageInUseError(f"journal {path} is in use by another process: give each client its own")
        self._origin = Origin(f"journal {path}")
        watch(self)

    def on_forked(self) -> None:
        """Close the descriptor in a child made by fork, which would otherwise keep the lock longer than the parent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"journal {self._path}: {error.strerror}") from error

    def _open(self, path: str, flags: int) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise StorageInUseError(f"journal {path} is in use by another process: give each client its own") from error
        return descriptor

    def read(self) -> bytes:
        with self._errors(), open(self._path, "rb") as file:
            return file.read()

    def append(self, data: bytes) -> None:
        self._origin.check()
        with self._errors():
            _write(self._descriptor, data)

    def sync(self) -> None:
        self._origin.check()
        with self._errors():
            os.fdatasync(self._descriptor)

    def replace(self, data: bytes) -> None:
        """Write a second file, with a lock of its own, and rename it over the first.

        From the rename on, whatever fails, the second is the journal.
        """
        self._origin.check()
        with self._errors():
            descriptor = self._open(f"{self._path}.new", os.O_CREAT | os.O_TRUNC)
            try:
                _write(descriptor, data)
                os.fsync(descriptor)
                os.rename(f"{self._path}.new", self._path)
            except OSError:
                os.close(descriptor)
                raise
            before, self._descriptor = self._descriptor, descriptor
            os.close(before)
            sync_folder(os.path.dirname(os.path.abspath(self._path)))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write(descriptor: int, data: bytes) -> None:
    """Write all of it at the end of a file, or nothing: what is written later must not stand behind a torn record."""
    written = 0
    try:
        while written < len(data):
            written += os.write(descriptor, data[written:])
    except OSError:
        if written:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
        raise


class Journal:
    """The journal: it stores the requests of `ClientRequests`; `recover` returns them to a later process."""

    def __init__(self, store: JournalStore, identity: bytes = b"", *, synced: bool = True) -> None:
        """Open a journal.

        A journal with another `identity` is refused; with an empty one any is taken. Not `synced`: requests survive the
        end of the process, not that of the machine.
        """
        self._store = store
        self._identity = identity
        self._synced = synced
        self._is_dirty = False
        self._is_in_doubt = False
        self._total_bytes = 0
        self._state = JournalState(b"", 0)

    def recover(self, identity: bytes, incarnation: int) -> JournalState:
        """Return the recovered content; a new journal begins with the arguments.

        Raises ConfigurationError for a file that is no journal, or that of another identity, and StorageError for one
        that is damaged before its end.
        """
        data = self._store.read()
        state, end = _read(data)
        if state is not None and _has_record_behind(data, end):
            raise StorageError(
                f"journal: damaged at byte {end} of {len(data)}, with whole records behind it: requests may be lost "
                "there; keep the file, ask the service what it has executed, and go on with another journal"
            )
        if state is None:
            if data and end == 0 and len(data) >= _HEAD.size + _IDENTITY.size:
                raise ConfigurationError("journal: the file is there and is no journal; name another one")
            state = JournalState(identity, incarnation)
        elif self._identity not in (b"", state.identity):
            raise ConfigurationError(
                f"journal: of identity {state.identity.hex()}, the settings say {self._identity.hex()}: leave it out"
            )
        self._state = state
        self._write_anew()
        return JournalState(**{**vars(state), "requests": dict(state.requests), "ids": dict(state.ids)})

    def begin_again(self, identity: bytes, incarnation: int) -> None:
        """Empty the journal, for a client that starts with a new identity."""
        before = self._state
        before.answered.clear()
        self._state = JournalState(identity, incarnation, cluster=before.cluster, answered=before.answered)
        self._state.known_position = before.known_position
        self._write_anew()

    @property
    def answered(self) -> AnsweredRequests:
        """The newest requests that were answered."""
        return self._state.answered

    def known_cluster(self) -> KnownCluster:
        """Return which cluster the journal is of, as far as that is known."""
        state = self._state
        whose = "" if state.cluster is None else "the journal"
        known = KnownCluster(state.cluster, whose, "give the addresses of that cluster, or another journal")
        known.position = max(state.known_position, state.open_position)
        return known

    def note_cluster(self, origin: LogOrigin, known_position: int) -> None:
        """Note which cluster the requests are for, and up to where its log is known."""
        state = self._state
        state.cluster, state.known_position = origin, max(state.known_position, known_position)
        self._append(_CLUSTER.pack(CLUSTER, *origin, known_position))

    def open(self, open_position: int, length_bytes_max: int, number: int) -> None:
        state = self._state
        state.open_position, state.length_bytes_max = open_position, length_bytes_max
        if state.number == 0:
            state.number = state.confirmed = state.answered.begins_after = number
        self._append(_OPENED.pack(OPENED, open_position, length_bytes_max, number))

    def add_request(self, number: int, payload: bytes, request_id: bytes | None = None) -> None:
        """Note a request that is to be sent. Raises StorageError for one that is not in the journal and must not be."""
        self._append(_pack_request(number, payload, request_id))
        self._state.number = number
        self._state.requests[number] = payload
        if request_id is not None:
            self._state.ids[number] = request_id

    def note_answer(self, number: int, log_position: int) -> None:
        """Note that a request was answered, before the application learns of it.

        It is sent again all the same, until it is confirmed; but not to a cluster that does not have it any more.
        """
        self._append(_ANSWERED.pack(ANSWERED, number, log_position))
        _note_answer(self._state, number, log_position)

    def confirm(self, confirmed: int) -> None:
        """Note that every request up to this number was answered."""
        state = self._state
        _drop_confirmed(state, confirmed)
        self._append(_NUMBER.pack(CONFIRMED, confirmed))
        kept_bytes = sum(map(len, state.requests.values())) + len(state.answered) * _ANSWERED_ROW.size
        if self._total_bytes > COMPACT_BYTES_MIN + 2 * kept_bytes:
            self._write_anew()

    def sync(self) -> None:
        """Make the appended requests durable; called before any of them is sent.

        Once a sync has failed, the kernel may count pages as written that are not, and a later one succeeds without
        them. So the next one writes everything into a new file.
        """
        if self._is_in_doubt:
            self._write_anew()
        elif self._is_dirty and self._synced:
            self._is_in_doubt = True
            self._store.sync()
            self._is_in_doubt = False
        self._is_dirty = False

    def _append(self, body: bytes) -> None:
        self._store.append(_frame(body))
        self._total_bytes += _HEAD.size + len(body)
        self._is_dirty = True

    def _write_anew(self) -> None:
        state = self._state
        bodies = [
            _IDENTITY.pack(IDENTITY, state.identity, state.incarnation),
            _OPENED.pack(OPENED, state.open_position, state.length_bytes_max, state.number),
            _NUMBER.pack(CONFIRMED, state.confirmed),
            *([] if state.cluster is None else [_CLUSTER.pack(CLUSTER, *state.cluster, state.known_position)]),
            _NUMBER.pack(BEGUN, state.answered.begins_after),
            bytes([ANSWERED]) + b"".join(_ANSWERED_ROW.pack(*row) for row in state.answered.rows()),
            *(_pack_request(one, payload, state.ids.get(one)) for one, payload in sorted(state.requests.items())),
        ]
        data = b"".join(map(_frame, bodies))
        self._is_in_doubt = True
        self._store.replace(data)
        self._total_bytes = len(data)
        self._is_dirty = self._is_in_doubt = False

    def close(self) -> None:
        try:
            self.sync()
        finally:
            self._store.close()


def _pack_request(number: int, payload: bytes, request_id: bytes | None) -> bytes:
    if request_id is None:
        return _NUMBER.pack(REQUEST, number) + payload
    return _NUMBER_AND_LENGTH.pack(REQUEST_BY_ID, number, len(request_id)) + request_id + payload


def _note_answer(state: JournalState, number: int, log_position: int) -> None:
    state.answered.note(number, log_position)
    state.known_position = max(state.known_position, log_position)


def _drop_confirmed(state: JournalState, confirmed: int) -> None:
    state.confirmed = confirmed
    for number in [number for number in state.requests if number <= confirmed]:
        del state.requests[number]
        state.ids.pop(number, None)


def _frame(body: bytes) -> bytes:
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def _read(data: bytes) -> tuple[JournalState | None, int]:
    """Return the state after the last complete record, and the offset where that record ends."""
    state: JournalState | None = None
    offset = 0
    while offset + _HEAD.size <= len(data):
        length_bytes, checksum = _HEAD.unpack_from(data, offset)
        body = data[offset + _HEAD.size : offset + _HEAD.size + length_bytes]
        if length_bytes == 0 or len(body) < length_bytes or zlib.crc32(body) != checksum:
            break
        if body[0] == IDENTITY:
            state = JournalState(*_IDENTITY.unpack(body)[1:])
        elif state is None:
            break
        else:
            _apply(state, body)
        offset += _HEAD.size + length_bytes
    return state, offset


def _has_record_behind(data: bytes, end: int) -> bool:
    """Return whether a whole record begins anywhere behind the byte that reading ended at."""
    for offset in range(end + 1, len(data) - _HEAD.size):
        length_bytes, checksum = _HEAD.unpack_from(data, offset)
        start = offset + _HEAD.size
        if not 0 < length_bytes <= len(data) - start or not IDENTITY <= data[start] <= BEGUN:
            continue
        if zlib.crc32(memoryview(data)[start : start + length_bytes]) == checksum:
            return True
    return False


def _apply(state: JournalState, body: bytes) -> None:
    if body[0] == OPENED:
        _, state.open_position, state.length_bytes_max, number = _OPENED.unpack(body)
        if state.number == 0:
            state.number = state.confirmed = state.answered.begins_after = number
    elif body[0] == REQUEST:
        number = _NUMBER.unpack_from(body)[1]
        state.number = max(state.number, number)
        state.requests[number] = body[_NUMBER.size :]
    elif body[0] == REQUEST_BY_ID:
        _, number, length_bytes = _NUMBER_AND_LENGTH.unpack_from(body)
        end = _NUMBER_AND_LENGTH.size + length_bytes
        state.number = max(state.number, number)
        state.ids[number], state.requests[number] = body[_NUMBER_AND_LENGTH.size : end], body[end:]
    elif body[0] == CLUSTER:
        _, identity, position, known_position = _CLUSTER.unpack(body)
        state.cluster = LogOrigin(identity, position)
        state.known_position = max(state.known_position, known_position)
    elif body[0] == ANSWERED:
        for row in _ANSWERED_ROW.iter_unpack(body[1:]):
            _note_answer(state, *row)
    elif body[0] == BEGUN:
        state.answered.begins_after = _NUMBER.unpack(body)[1]
    elif body[0] == CONFIRMED:
        _drop_confirmed(state, _NUMBER.unpack(body)[1])
