"""What a writer and the ledger say to each other.

request  u8 kind, u32 writer id, u64 sequence, then any bytes
answer   u8 status, u32 writer id, u64 sequence, u64 count: how many entries the ledger held after this one
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from struct import Struct

REQUEST = Struct("<BIQ")
ANSWER = Struct("<BIQQ")
COUNT = Struct("<Q")
"""Answer of any query: how many entries the ledger holds."""
REPORT_EVENT = "ledger.report"
EMPTY_HASH = bytes(16)
ANSWERS_KEPT = 1024


class Kind(IntEnum):
    """What a request asks for."""

    APPEND = 1
    REPORT = 2
    """Every replica logs its state under the sequence number as the report's id; nothing is applied."""
    RESET = 3
    """The ledger is as new, for the next test of a cluster that several have."""


class Status(IntEnum):
    """What became of an APPEND."""

    APPLIED = 1
    """Now or at an earlier attempt: the answer is the same."""
    GAP = 2
    """Not applied: an earlier sequence number is missing. The answer's sequence is the one that is expected."""
    REPORTED = 3
    """The report is logged, or the ledger is as new."""


def chain(previous: bytes, request: bytes) -> bytes:
    """The hash of a sequence of requests, one more appended."""
    return hashlib.blake2b(previous + request, digest_size=16).digest()
