"""Archives of running nodes, read as copies of them are: bytes are fetched as they are asked for, and nothing is kept.

What a node sends is what its files have but for stream id and checksum, which are put back, and the session id of
padding, which is 0: so stretches of two nodes can be compared byte for byte. A node checks each frame before it sends
it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from ordo.archive.client.client import ArchiveClient
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.segments.frames import reseal
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import Origin
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.follow.recordings.ranges import Access, DamagedRangeError, OneNode, RangeReader, Survey, survey
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.fetched import fetched_file
from ordo.runtime.errors import OrdoError, OtherClusterError
from ordo.transport.frame_layout import FRAME_HEADER_LENGTH

SCHEME = "ordo://"
CLUSTER = "cluster"
RECORDING_ID = -1
"""The id of a cluster's log, whichever node it is read from: each node has a different one."""
_LENGTH, _TYPE, _TERM_OFFSET, _SESSION_ID = slice(0, 4), slice(6, 8), slice(8, 12), slice(12, 16)
_PAD = bytes(2)
_DAMAGED = re.compile(r"is damaged at position=(\d+)")


def is_network(path: str) -> bool:
    """Return whether this names nodes, and no folder or copy."""
    return path.strip().startswith(SCHEME)


def parse_addresses(path: str) -> tuple[str, ...]:
    """`ordo://host:port,host:port` as addresses. Raises PipelineError for what is none."""
    listed = [part.strip().removeprefix(SCHEME) for part in path.strip().removeprefix(SCHEME).split(",")]
    for address in listed:
        host, separator, port = address.rpartition(":")
        if not separator or not host or not port.isdigit() or "/" in address:
            raise PipelineError(
                f"{path!r}: {address!r} is no address; give the archive endpoints of the members, such as "
                f"ordo://node0:9014,node1:9014"
            )
    return tuple(dict.fromkeys(listed))


def ask_nodes(
    addresses: tuple[str, ...], access: Access, unawaited: tuple[str, ...] = (), cluster: KnownCluster | None = None
) -> Survey:
    """Return what these nodes have of the log, together. `cluster`: the one that is known, up to a position.

    Raises PipelineError when no node answers, OtherClusterError when they are of two clusters.
    """
    try:
        return survey(addresses, access, unawaited, cluster)
    except OtherClusterError:
        raise
    except OrdoError as error:
        raise PipelineError(f"{SCHEME}{','.join(addresses)}: {error}") from error


def list_stopped(address: str, access: Access) -> list[RecordingDescriptor]:
    """Return what a node has beside the log that is not recorded any more, among it snapshots. Raises PipelineError."""
    transport = access.transport()
    try:
        with ArchiveClient(access.settings(address), transport=transport) as archive:
            found = archive.list_recordings()
    except OrdoError as error:
        raise PipelineError(f"{SCHEME}{address}: {error}") from error
    return [entry for entry in found if not entry.is_active and entry.stream_id != LOG_STREAM_ID]


@dataclass(frozen=True)
class NodeFile:
    """A recording that nodes have: the log, or one of a single node.

    The first of the addresses is asked first, and the others where that one cannot give a stretch. With `of_node` the
    only one is asked for what it has itself: what it cannot send since it is damaged is left out, as a hole.
    """

    addresses: tuple[str, ...]
    access: Access = field(default_factory=Access)
    origin: Origin | None = None
    of_node: OneNode | None = None

    def cluster(self) -> Origin | None:
        """Return which cluster's log it is, where that is known."""
        return self.origin

    def prove(self, known: KnownCluster) -> None:
        """Have the nodes show that their log goes on with what is known.

        Raises OtherClusterError, PipelineError.
        """
        ask_nodes(self.addresses, self.access, cluster=known)

    def cursor(
        self, descriptor: RecordingDescriptor, base: int, start: int, end: int, verify: bool, exact: bool
    ) -> MessageCursor:
        """Messages of [start, end). These bytes are fetched into a file without a name, which is gone with the cursor.

        Raises PipelineError where no node can give them.
        """
        path = f"{SCHEME}{','.join(self.addresses)}"
        with fetched_file() as file:
            os.ftruncate(file.fileno(), end - base)
            self._fetch(RecordedBytes(file.fileno(), descriptor, base), start, end)
            return MessageCursor(path, descriptor, base, start, end, verify, exact, file.fileno())

    def _fetch(self, file: RecordedBytes, start: int, end: int) -> None:
        """Raise PipelineError. A member's damaged frame ends it: nothing is known of where the next one begins."""
        try:
            self._read(file, start, end)
        except DamagedRangeError as error:
            place = _DAMAGED.search(str(error))
            damaged = int(place[1]) if place is not None else error.position
            if error.position < damaged < end:  # the archive gives up a block; what is before the frame is sound
                self._read(file, error.position, damaged)

    def _read(self, file: RecordedBytes, start: int, end: int) -> None:
        try:
            with RangeReader(
                self.addresses, start, end, self.access, origin=self.origin, of_node=self.of_node
            ) as reader:
                for position, block in reader:
                    file.add(position, block)
        except (DamagedRangeError, OtherClusterError):
            raise
        except (OrdoError, ValueError) as error:
            raise PipelineError(f"{SCHEME}{','.join(self.addresses)}: {error}") from error


class RecordedBytes:
    """A file into which frames of a replay are written as they stand in a recording's file."""

    def __init__(self, file: int, descriptor: RecordingDescriptor, base: int) -> None:
        self._file, self._base = file, base
        self._stream_id, self._term_length = descriptor.stream_id, descriptor.term_length
        self._pad_start = self._pad_end = -1

    def add(self, position: int, block: bytes) -> None:
        """Write frames; a PAD comes by itself, and a long one in parts. Raises ValueError for what are none."""
        frames = bytearray(block)
        if frames[_TYPE] == _PAD:
            if position != self._pad_end or position % self._term_length == 0:
                self._pad_start = position
            self._pad_end = position + len(frames)
            position, frames = self._pad_start, frames[:FRAME_HEADER_LENGTH]
            frames[_LENGTH] = (self._pad_end - position).to_bytes(4, "little")
            frames[_TERM_OFFSET] = (position % self._term_length).to_bytes(4, "little")
            frames[_SESSION_ID] = bytes(4)
        reseal(frames, self._stream_id)
        os.pwrite(self._file, frames, position - self._base)


@dataclass(frozen=True)
class NodeRecording:
    """A recording of nodes, and how far it may be read."""

    node: str
    place: str
    descriptor: RecordingDescriptor
    limit: int
    file: NodeFile


def cluster_recordings(path: str, access: Access, wants_all: bool) -> list[NodeRecording]:
    """Return the log of a cluster, as one, and with `wants_all` what one of its nodes keeps beside it.

    Followers are read first: the leader has enough to do.
    """
    addresses = parse_addresses(path)
    found = ask_nodes(addresses, access)
    log = found.descriptor._replace(recording_id=RECORDING_ID, start_position=found.start_position)
    file = NodeFile(found.addresses, access, found.origin)
    result = [NodeRecording(CLUSTER, path, log, found.end_position, file)]
    if wants_all:
        result += _stopped(CLUSTER, path, found.answered[0], access, found.origin)
    return result


def member_recordings(path: str, access: Access, wants_all: bool) -> list[NodeRecording]:
    """Return the log that each of these nodes has itself, each node by its address.

    Raises OtherClusterError for nodes of two clusters, PipelineError where one does not answer.
    """
    result: list[NodeRecording] = []
    for address in parse_addresses(path):
        found = ask_nodes((address,), access)
        log = found.descriptor._replace(start_position=found.start_position)
        place, file = f"{SCHEME}{address}", NodeFile((address,), access, found.origin, OneNode())
        result.append(NodeRecording(address, place, log, found.end_position, file))
        if wants_all:
            result += _stopped(address, place, address, access, found.origin)
    return result


def _stopped(node: str, place: str, address: str, access: Access, origin: Origin | None) -> list[NodeRecording]:
    return [
        NodeRecording(
            node, place, entry, entry.stop_position, NodeFile((address,), access, origin, OneNode(entry.recording_id))
        )
        for entry in list_stopped(address, access)
    ]
