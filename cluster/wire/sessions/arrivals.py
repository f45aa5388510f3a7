"""When messages arrived at their leader, as records of the log say it (docs/spec/ordo-messages.md).

The time is an i64, ns since 1970, at the end of a record's block: of a SessionMessageHeader, whose block is 32 bytes
long then instead of 24, and of an ArrivedRequest, whose block is that of a Request, a RequestById, an Output or an
OutputById but for these 8 bytes.
"""

from __future__ import annotations

import struct

from ordo.cluster.wire import codecs, ordo_codecs

_HEADER = struct.Struct("<HHHH")
_ARRIVAL = struct.Struct("<q")
_BLOCK_WITH_ARRIVAL = codecs.SESSION_MESSAGE_HEADER.block_length + _ARRIVAL.size
_REQUEST_WITH_ARRIVAL = ordo_codecs.REQUEST.block_length + _ARRIVAL.size
_MESSAGE = (codecs.SESSION_MESSAGE_HEADER.template_id, codecs.SCHEMA_ID)
_ARRIVED_REQUEST = (ordo_codecs.ARRIVED_REQUEST.template_id, ordo_codecs.SCHEMA_ID)


def split_arrival(record: bytes) -> tuple[int | None, bytes]:
    """Return when the message in a record arrived at its leader, in ns since 1970, and the record without it.

    That of an ArrivedRequest is a Request; a SessionMessageHeader stays as it is, since only its block's length tells
    what is behind it. The time is None where the record has none.
    """
    if len(record) < _HEADER.size:
        return None, record
    block_length, template_id, schema_id, version = _HEADER.unpack_from(record)
    end = _HEADER.size + block_length
    if end > len(record):
        return None, record
    if (template_id, schema_id) == _MESSAGE and block_length >= _BLOCK_WITH_ARRIVAL:
        return _known(record, _HEADER.size + codecs.SESSION_MESSAGE_HEADER.block_length), record
    if (template_id, schema_id) != _ARRIVED_REQUEST or block_length < _REQUEST_WITH_ARRIVAL:
        return None, record
    at = end - _ARRIVAL.size
    header = _HEADER.pack(block_length - _ARRIVAL.size, ordo_codecs.REQUEST.template_id, schema_id, version)
    return _known(record, at), header + record[_HEADER.size : at] + record[end:]


def _known(record: bytes, at: int) -> int | None:
    arrival_ns: int = _ARRIVAL.unpack_from(record, at)[0]
    return arrival_ns if arrival_ns > 0 else None
