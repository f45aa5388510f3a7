"""The cluster of a log from its first records, for logs without a member's store beside them."""

from __future__ import annotations

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.log_identity import Log, begin_of_identity, find_origin, pack_identity
from ordo.pipeline.decoding.batches import BatchBuilder
from ordo.pipeline.decoding.cursor import MessageCursor
from ordo.pipeline.decoding.decoder import RecordDecoder, RowSelection
from ordo.pipeline.decoding.errors import CorruptRecordingError
from ordo.runtime.errors import DecodeError

HEAD_BYTES = 1 << 20
_KINDS = ("new_term", "cluster_identity")


def read_head(cursor: MessageCursor) -> Log | None:
    """Return the cluster that the records below a cursor name, or None.

    A cluster that was restored has another identity from where it began. Damage ends the look, and is for others to
    report.
    """
    decoder = RecordDecoder(
        cursor, RowSelection(kinds=_KINDS), BatchBuilder(("position", "payload"), 0, "", 0, 1024), True
    )
    found: Log | None = None
    try:
        while not cursor.fault and (batch := decoder.next_batch()) is not None:
            for position, record in zip(*(batch.column(index).to_pylist() for index in range(2)), strict=True):
                said = _said_by(position, record)
                if said is not None and (found is None or found.identity != said.identity):
                    found = said
    except CorruptRecordingError:
        pass
    return None if found is None else found._replace(executed_position=cursor.position)


def _said_by(position: int, record: bytes) -> Log | None:
    try:
        origin, other = find_origin(record), ordo_codecs.decode(record)
    except DecodeError:
        return None
    if origin is not None:
        return Log(origin.identity, origin.position, position)
    if other is None or other[0] is not ordo_codecs.CLUSTER_IDENTITY_EVENT:
        return None
    identity = pack_identity(other[1])
    return Log(identity, begin_of_identity(other[1], position), position) if identity else None
