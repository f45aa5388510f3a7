"""What tells a recording from another one: an id and a position mean nothing at another archive, or in a new one.

A recording keeps these when it is gone on with, purged or migrated; its session id and its source are others after a
restart of the publisher. Two archives that record one stream have two recordings, as positions that one of them has
need not be in the other.
"""

from __future__ import annotations

import hashlib
import re
import struct

from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.sentinels import NULL_VALUE
from ordo.transport.streams.image import Image

_FIELDS = struct.Struct("<qiiii")
_DIGEST_BYTES = 16
_SHOWN = 12


def identity_of(descriptor: RecordingDescriptor) -> str:
    """Return the identity of a recording, which no other recording has, as hexadecimal digits."""
    kept = _FIELDS.pack(
        descriptor.start_timestamp,
        descriptor.initial_term_id,
        descriptor.term_length,
        descriptor.mtu,
        descriptor.stream_id,
    )
    return hashlib.blake2b(kept, digest_size=_DIGEST_BYTES).hexdigest()


def check_identity(text: str | None) -> str | None:
    """Return what names a recording, or nothing. Raises ConfigurationError."""
    if text is not None and not re.fullmatch(f"[0-9a-f]{{{2 * _DIGEST_BYTES}}}", text):
        raise ConfigurationError(
            f"identity={text[:100]!r}: must be the {2 * _DIGEST_BYTES} hexadecimal digits that `identity` of a "
            "subscription gives"
        )
    return text


def shown(identity: str) -> str:
    """Return as much of an identity as an error needs."""
    return identity[:_SHOWN]


def difference_of(image: Image, descriptor: RecordingDescriptor, recorded_position: int) -> str:
    """Return why a live stream cannot be that of a recording with the same session id, or an empty string.

    `recorded_position`: how far the recording went before the stream was subscribed to. A stream is joined where its
    sender is, and no recording is further than its sender; nor does one that was stopped go on anywhere but at its end.
    An image that this driver had already may lag, which only delays the change to it.
    """
    if image.initial_term_id != descriptor.initial_term_id:
        return f"initial term id {image.initial_term_id} instead of {descriptor.initial_term_id}"
    if image.term_length != descriptor.term_length:
        return f"terms of {image.term_length} bytes instead of {descriptor.term_length}"
    join_position, stop_position = image.join_position, descriptor.stop_position
    if join_position < recorded_position or NULL_VALUE != stop_position < join_position:
        return f"it is at {join_position}, the recording at {recorded_position}"
    return ""
