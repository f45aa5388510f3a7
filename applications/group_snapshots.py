"""Snapshots of a group in an archive: one instance leaves them there, and one without a checkpoint begins with them.

A snapshot is a recording of its own:

    JSON: group, position, length_bytes, crc32 | pieces of up to PIECE_BYTES: each message behind its u32 length

The JSON also has `cluster`, the identity of the log's cluster, where that was known. A recording that ends before,
because its instance died, is none. The archive is one that is served (`ordo archive serve`); it hears the recordings at
the port behind that of its control.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from ordo.applications.outputs import group_identity
from ordo.archive.client.client import ArchiveClient
from ordo.archive.client.settings import ArchiveClientSettings
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.cluster.wire.log_identity import Origin, identity_text, parse_identity
from ordo.runtime.closing import Closing
from ordo.runtime.errors import ArchiveTimeoutError, ConfigurationError
from ordo.transport.streams.publication import Publication

STREAM_ID = 150
PIECE_BYTES = 32 * 1024
TERM_LENGTH = "1m"
KEPT = 2
"""Snapshots of a group; older ones are deleted."""
PARK_NS = 100_000
_LENGTH = struct.Struct("<I")


class GroupSnapshot(NamedTuple):
    """The state of a group, as an instance left it."""

    messages: list[bytes]
    origin: Origin | None = None
    """Which cluster's log it is of; None: it does not say."""


class GroupSnapshots(Closing):
    """The snapshots of one group in one archive. Its calls wait for the archive."""

    def __init__(
        self, address: str, group: str, *, credentials: bytes | Callable[[], bytes] = b"", timeout_s: float = 10.0
    ) -> None:
        """`address`: `host:port` of the archive's control. Raises ArchiveError, ConfigurationError, TransportError."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65535:
            raise ConfigurationError(f"archive {address!r}: must be HOST:PORT, with PORT up to 65534")
        self._group = group
        self._alias = f"ordo-app-{group_identity(group).hex()}"
        self._channel = f"aeron:udp?endpoint={host}:{int(port) + 1}|alias={self._alias}"
        self._timeout_ns = round(timeout_s * 1e9)
        settings = ArchiveClientSettings.at(
            address, message_timeout_s=timeout_s, credentials=credentials, name="group snapshots"
        )
        self._client = ArchiveClient(settings)

    def newest(self) -> GroupSnapshot | None:
        """Return the newest snapshot that is whole, as `store` took it; None when there is none.

        Raises ArchiveError.
        """
        for found in reversed(self._recordings()):
            snapshot = _join(self._group, (one.payload for one in self._client.replay(found.recording_id)))
            if snapshot is not None:
                return snapshot
        return None

    def age_ms(self, now_ms: int) -> int | None:
        """How long ago the newest one was begun, whole or not; None when there is none."""
        found = self._recordings()
        return now_ms - found[-1].start_timestamp if found else None

    def store(self, messages: Iterable[bytes], position: int, origin: Origin | None = None) -> None:
        """Add a snapshot, and delete those that are too many. Raises ArchiveError, ArchiveTimeoutError.

        `origin`: which cluster's log it is of; None: that is not known.
        """
        body = b"".join(part for message in messages for part in (_LENGTH.pack(len(message)), message))
        head = {"group": self._group, "position": position, "length_bytes": len(body), "crc32": crc32(body)}
        if origin is not None:
            head["cluster"] = identity_text(origin)
        client = self._client
        channel = f"{self._channel}|term-length={TERM_LENGTH}"
        publication = client.transport.add_exclusive_publication(channel, STREAM_ID)
        try:
            client.start_recording(f"{self._channel}|session-id={publication.session_id}", STREAM_ID, auto_stop=True)
            self._send(publication, json.dumps(head).encode())
            for start in range(0, len(body), PIECE_BYTES):
                self._send(publication, body[start : start + PIECE_BYTES])
            recording_id = self._await_recorded(publication)
        finally:
            publication.close()
        client.stop_recording_by_id(recording_id)
        for old in [one for one in self._recordings() if one.recording_id <= recording_id][:-KEPT]:
            if not old.is_active:
                client.purge_recording(old.recording_id)

    def close(self) -> None:
        """Idempotent."""
        self._client.close()

    def _recordings(self) -> list[RecordingDescriptor]:
        return self._client.list_recordings(stream_id=STREAM_ID, channel=f"alias={self._alias}")

    def _send(self, publication: Publication, payload: bytes) -> None:
        deadline_ns = self._client.now_ns() + self._timeout_ns
        while publication.offer(payload) <= 0:
            self._wait(deadline_ns)

    def _await_recorded(self, publication: Publication) -> int:
        """Wait until the publication is recorded; return its recording."""
        deadline_ns = self._client.now_ns() + self._timeout_ns
        while True:
            found = self._client.find_last_recording(f"alias={self._alias}", STREAM_ID, publication.session_id)
            if found is not None and self._client.recording_position(found) == publication.position:
                return found
            self._wait(deadline_ns)

    def _wait(self, deadline_ns: int) -> None:
        if self._client.now_ns() > deadline_ns:
            raise ArchiveTimeoutError(f"the archive does not record {self._channel}: is its port open to this host?")
        if self._client.work() == 0:
            self._client.park(PARK_NS)


def find_snapshot(address: str, group: str, credentials: bytes | Callable[[], bytes] = b"") -> GroupSnapshot | None:
    """Return the newest snapshot of a group in an archive; None when there is none. Raises OrdoError."""
    with GroupSnapshots(address, group, credentials=credentials) as snapshots:
        return snapshots.newest()


def _join(group: str, payloads: Iterator[bytes]) -> GroupSnapshot | None:
    """Return the snapshot of a recording, or None if it is incomplete or something else."""
    try:
        head: Any = json.loads(next(payloads, b""))
        wanted = head["group"], head["length_bytes"], head["crc32"]
        origin = parse_identity(str(head["cluster"])) if "cluster" in head else None
    except (ValueError, KeyError, TypeError, ConfigurationError):
        return None
    body = b"".join(payloads)
    if wanted != (group, len(body), crc32(body)):
        return None
    messages, offset = [], 0
    while offset < len(body):
        (length,) = _LENGTH.unpack_from(body, offset)
        messages.append(body[offset + _LENGTH.size : offset + _LENGTH.size + length])
        offset += _LENGTH.size + length
    return GroupSnapshot(messages, origin)
