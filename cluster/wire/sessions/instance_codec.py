"""An instance's report about itself: the fixed fields of an AppReport, followed by two texts.

    AppReport or LongAppReport | group (group_length bytes, UTF-8) | instance (instance_length bytes, UTF-8)

Whatever bytes a client sends, `decode_report` returns a report or None: what the members execute must not depend on
anything but the bytes.
"""

from __future__ import annotations

import struct
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
"""The flags above that say how many outputs were refused, where a log is below the protocol level of long reports:
members of each release keep these bits as they are."""
REFUSED_EXACT_MAX = 15
_REFUSED_CODE_MAX = 31
_BLOCK_LENGTH = struct.Struct("<H")
FLAGS_MASK = (1 << FLAG_BITS) - 1


NOT_COUNTED = -1


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
    """The version of the code that executes the log."""
    flags: int
    newest_version: int = 0
    """The newest version of all its code; 0: an earlier release does not report it."""
    outputs_refused: int = NOT_COUNTED
    """Exactly; NOT_COUNTED: the flags tell."""

    @property
    def refused(self) -> int:
        """The number of refused outputs; the flags show whether there may be more."""
        return refused_of(self.flags) if self.outputs_refused == NOT_COUNTED else self.outputs_refused

    @property
    def is_refused_exact(self) -> bool:
        """Return whether it is known how many outputs were refused, and not only that some or at least as many were."""
        if self.outputs_refused != NOT_COUNTED:
            return True
        return self.refused <= REFUSED_EXACT_MAX and (self.refused > 0 or not self.flags & ReportFlag.REFUSED)


def encode_refused(count: int) -> int:
    """Return the flags for a count of refused outputs: five bits, exact up to 15, then the power of two below."""
    if count <= REFUSED_EXACT_MAX:
        code = max(0, count)
    else:
        code = min(_REFUSED_CODE_MAX, REFUSED_EXACT_MAX - 4 + count.bit_length())
    return code << REFUSED_SHIFT


def refused_of(flags: int) -> int:
    """Return the least number of refused outputs; exact up to 15.

    0: none, or an earlier release that does not report it.
    """
    code = (flags & FLAGS_MASK) >> REFUSED_SHIFT
    return code if code <= REFUSED_EXACT_MAX else 1 << (code - REFUSED_EXACT_MAX + 3)


def _signed(value: int) -> int:
    """Return the i32 with the same bits."""
    return value - (value >> 31 << 32)


def encode_report(report: InstanceReport, leadership_term_id: int) -> bytes:
    """Return the record, as an instance sends it, and as a snapshot keeps it: with a count, the longer one."""
    group, instance = report.group.encode(), report.instance.encode()
    is_long = report.outputs_refused != NOT_COUNTED
    counted = {"outputs_refused": report.outputs_refused} if is_long else {}
    head = (ordo_codecs.LONG_APP_REPORT if is_long else ordo_codecs.APP_REPORT).encode(
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
        **counted,
    )
    return head + group + instance


def decode_report(record: bytes) -> InstanceReport | None:
    """Return the report in a record; None for what makes no sense."""
    try:
        values = ordo_codecs.APP_REPORT.decode(record)
        is_long = _BLOCK_LENGTH.unpack_from(record)[0] >= ordo_codecs.LONG_APP_REPORT.block_length
        refused = ordo_codecs.LONG_APP_REPORT.decode(record).outputs_refused if is_long else NOT_COUNTED
    except DecodeError:
        return None
    if is_long and refused < 0:
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
        refused,
    )
