"""What an instance of an application says of itself: the fixed fields of an AppReport, and two texts behind them.

    AppReport | group (group_length bytes, UTF-8) | instance (instance_length bytes, UTF-8)

Whatever bytes a client sends, `decode_report` returns a report or None: what the members execute must not depend on
anything but the bytes.
"""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.tails import split_tail
from ordo.runtime.errors import DecodeError

GROUP_BYTES_MAX = 64
INSTANCE_BYTES_MAX = 128
FLAG_BITS = 8
"""The rest of the field is the newest version."""
REFUSED_SHIFT = 3
"""The flags above that say how many outputs were refused: members of each release keep these bits as they are."""
REFUSED_EXACT_MAX = 15
_REFUSED_CODE_MAX = 31
FLAGS_MASK = (1 << FLAG_BITS) - 1


class ReportFlag(IntFlag):
    """What an instance is."""

    NONE = 0
    ACTIVE = 1
    """It writes its outputs into the log."""
    CANARY = 2
    """It only compares."""
    REFUSED = 4
    """The service in the cluster has refused some of the outputs that it wrote since it started."""


class InstanceReport(NamedTuple):
    """How far one instance is. `session_id` and `timestamp` are those of the record."""

    group: str
    instance: str
    session_id: int
    timestamp: int
    position: int
    """It has executed the log up to here."""
    outputs_made: int
    outputs_executed: int
    """As far as it knows."""
    app_version: int
    """Of the code that executes the log."""
    flags: int
    newest_version: int = 0
    """Of all the code that it has; 0: an earlier release does not tell."""


def encode_refused(count: int) -> int:
    """Return the flags for a count of refused outputs: five bits, exact up to 15, then the power of two below."""
    if count <= REFUSED_EXACT_MAX:
        code = max(0, count)
    else:
        code = min(_REFUSED_CODE_MAX, REFUSED_EXACT_MAX - 4 + count.bit_length())
    return code << REFUSED_SHIFT


def refused_of(flags: int) -> int:
    """Return how many outputs were refused, at least; exact up to 15. 0: none, or an earlier release does not tell."""
    code = (flags & FLAGS_MASK) >> REFUSED_SHIFT
    return code if code <= REFUSED_EXACT_MAX else 1 << (code - REFUSED_EXACT_MAX + 3)


def _signed(value: int) -> int:
    """Return the i32 with the same bits."""
    return value - (value >> 31 << 32)


def encode_report(report: InstanceReport, leadership_term_id: int) -> bytes:
    """Return the record, as an instance sends it, and as a snapshot keeps it."""
    group, instance = report.group.encode(), report.instance.encode()
    head = ordo_codecs.APP_REPORT.encode(
        leadership_term_id=leadership_term_id,
        cluster_session_id=report.session_id,
        timestamp=report.timestamp,
        position=report.position,
        outputs_made=report.outputs_made,
        outputs_executed=report.outputs_executed,
        app_version=report.app_version,
        flags=_signed(report.newest_version << FLAG_BITS | report.flags),
        group_length=len(group),
        instance_length=len(instance),
    )
    return head + group + instance


def decode_report(record: bytes) -> InstanceReport | None:
    """Return the report in a record; None for what makes no sense."""
    try:
        values = ordo_codecs.APP_REPORT.decode(record)
    except DecodeError:
        return None
    lengths = values.group_length, values.instance_length
    if not 1 <= lengths[0] <= GROUP_BYTES_MAX or not 0 <= lengths[1] <= INSTANCE_BYTES_MAX:
        return None
    parts = split_tail(record, lengths)
    if parts is None:
        return None
    try:
        group, instance = (part.decode() for part in parts)
    except UnicodeDecodeError:
        return None
    return InstanceReport(
        group,
        instance,
        values.cluster_session_id,
        values.timestamp,
        values.position,
        values.outputs_made,
        values.outputs_executed,
        values.app_version,
        values.flags & FLAGS_MASK,
        (values.flags & 0xFFFFFFFF) >> FLAG_BITS,
    )
