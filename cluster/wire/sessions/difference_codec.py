"""A canary's report to the cluster: the fixed fields of an AppDifference, followed by four texts.

    AppDifference | group | instance (both UTF-8) | what the group wrote | what the canary would have written

Of the two payloads no more than the first PAYLOAD_BYTES_MAX bytes are there, none of what was not written at all.
Whatever bytes a client sends, `decode_difference` returns a difference or None: what the members execute must not
depend on anything but the bytes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.sessions.instance_codec import GROUP_BYTES_MAX, INSTANCE_BYTES_MAX
from ordo.cluster.wire.tails import split_tail
from ordo.runtime.errors import DecodeError

GROUP_DIFFERENCES_MAX = 128
"""So many of a group are kept; a canary has no use to tell more at a time."""
PAYLOAD_BYTES_MAX = 60
NOT_WRITTEN = -1
"""The length of a payload that one of the two did not write."""


class DifferenceKind(IntEnum):
    """How an output of a canary is not that of its group; travels as i32."""

    PAYLOAD = 0
    TARGET = 1
    MISSING = 2
    """The group wrote it, the canary does not."""
    ADDED = 3
    """The canary writes it, the group did not."""

    @property
    def text(self) -> str:
        """Return the difference as users see it."""
        return _TEXTS[self]


_TEXTS = {
    DifferenceKind.PAYLOAD: "another payload",
    DifferenceKind.TARGET: "another target",
    DifferenceKind.MISSING: "the canary does not write this output",
    DifferenceKind.ADDED: "only the canary writes this output",
}


class DifferenceReport(NamedTuple):
    """An output that a canary and its group did not write alike.

    `session_id` and `timestamp` are those of the record.
    """

    group: str
    instance: str
    session_id: int
    timestamp: int
    log_position: int
    """After the record; 0 in the record itself, known where it is kept."""
    input_position: int
    """After the record that the output answers."""
    output_index: int
    """Among the outputs to this record, from 0."""
    found: int
    """So many differences this canary has found since it started, with this one."""
    app_version: int
    """The version of the canary's code."""
    kind: DifferenceKind
    written_length: int
    """In bytes, of all that the group wrote."""
    canary_length: int
    written: bytes
    """How it begins."""
    canary: bytes


def encode_difference(report: DifferenceReport, leadership_term_id: int) -> bytes:
    """Return the record, as a canary sends it, and as a snapshot keeps it."""
    group, instance = report.group.encode(), report.instance.encode()
    head = ordo_codecs.APP_DIFFERENCE.encode(
        leadership_term_id=leadership_term_id,
        cluster_session_id=report.session_id,
        timestamp=report.timestamp,
        log_position=report.log_position,
        input_position=report.input_position,
        count=report.found,
        output_index=report.output_index,
        app_version=report.app_version,
        kind=report.kind,
        written_length=report.written_length,
        canary_length=report.canary_length,
        group_length=len(group),
        instance_length=len(instance),
    )
    return head + group + instance + report.written + report.canary


def decode_difference(record: bytes) -> DifferenceReport | None:
    """Return the difference in a record; None for what makes no sense."""
    try:
        values = ordo_codecs.APP_DIFFERENCE.decode(record)
        kind = DifferenceKind(values.kind)
    except (DecodeError, ValueError):
        return None
    names, payloads = (values.group_length, values.instance_length), (values.written_length, values.canary_length)
    if not 1 <= names[0] <= GROUP_BYTES_MAX or not 0 <= names[1] <= INSTANCE_BYTES_MAX or min(payloads) < NOT_WRITTEN:
        return None
    kept = (min(max(length_bytes, 0), PAYLOAD_BYTES_MAX) for length_bytes in payloads)
    parts = split_tail(record, [*names, *kept])
    if parts is None:
        return None
    try:
        group, instance = parts[0].decode(), parts[1].decode()
    except UnicodeDecodeError:
        return None
    return DifferenceReport(
        group,
        instance,
        values.cluster_session_id,
        values.timestamp,
        values.log_position,
        values.input_position,
        values.output_index,
        values.count,
        values.app_version,
        kind,
        *payloads,
        parts[2],
        parts[3],
    )
