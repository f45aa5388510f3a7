"""Records with the time at which their message arrived: native readers and those in Python agree about any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.sessions.arrivals import split_arrival
from ordo.follow.entries import EntryKind, decode_entry
from ordo.runtime.errors import DecodeError
from ordo.runtime.sbe import Message
from tests.cluster.wire.layout_values import read_arrival, request_kind
from tests.sequencer.request_log import with_arrival

ARRIVAL_NS = 1_700_000_000_123_456_789
MESSAGE = codecs.SESSION_MESSAGE_HEADER
KINDS = {
    EntryKind.MESSAGE: (MESSAGE,),
    EntryKind.REQUEST: (ordo_codecs.REQUEST, ordo_codecs.REQUEST_BY_ID),
    EntryKind.OUTPUT: (ordo_codecs.OUTPUT, ordo_codecs.OUTPUT_BY_ID),
}
TABLES = [(kind, table) for kind, tables in KINDS.items() for table in tables]


def record_of(table: Message) -> bytes:
    return table.encode(leadership_term_id=3, cluster_session_id=7, timestamp=9) + b"payload"


@pytest.mark.parametrize(("kind", "table"), TABLES, ids=lambda one: getattr(one, "name", ""))
def test_an_entry_is_the_same_with_its_arrival_beside(kind: EntryKind, table: Message) -> None:
    plain, timed = record_of(table), with_arrival(record_of(table), ARRIVAL_NS)
    without, entry = decode_entry(96, plain), decode_entry(96, timed)
    assert without is not None and entry is not None
    assert (without.kind, without.payload, without.arrival_ns) == (kind, b"payload", None)
    assert entry == without._replace(arrival_ns=ARRIVAL_NS)
    assert (read_arrival(plain), read_arrival(timed)) == (0, ARRIVAL_NS)
    assert request_kind(timed) == request_kind(plain)
    assert (request_kind(plain) is None) == (table is MESSAGE)


@pytest.mark.parametrize("unknown", [0, -1, -(2**63)])
@pytest.mark.parametrize("table", [MESSAGE, ordo_codecs.REQUEST], ids=lambda table: table.name)
def test_a_time_that_is_none_is_not_known(table: Message, unknown: int) -> None:
    record = with_arrival(record_of(table), unknown)
    entry = decode_entry(96, record)
    assert entry is not None and entry.arrival_ns is None and entry.payload == b"payload"
    assert read_arrival(record) == 0


@pytest.mark.parametrize("table", [table for _, table in TABLES], ids=lambda table: table.name)
def test_a_record_that_is_cut_short_says_nothing(table: Message) -> None:
    record = with_arrival(record_of(table), ARRIVAL_NS)
    for length in range(len(record) - len(b"payload")):
        assert split_arrival(record[:length]) == (None, record[:length])
        assert not read_arrival(record[:length])
        if length >= codecs.HEADER_LENGTH_BYTES:
            with pytest.raises(DecodeError):
                decode_entry(96, record[:length])


HEADS = st.tuples(
    st.integers(0, 130),
    st.sampled_from([1, 41, 151, 47]),
    st.sampled_from([codecs.SCHEMA_ID, ordo_codecs.SCHEMA_ID, 5]),
    st.integers(0, 3),
)


@given(HEADS, st.binary(max_size=160))
def test_of_any_bytes_native_readers_say_what_the_others_say(head: tuple[int, int, int, int], rest: bytes) -> None:
    record = struct.pack("<HHHH", *head) + rest
    arrival_ns, plain = split_arrival(record)
    native = read_arrival(record)
    if native is not None:
        assert native == (arrival_ns or 0)
    else:
        assert arrival_ns is None and plain == record
    if (kind := request_kind(record)) is not None:
        assert kind == request_kind(plain) and kind[0] == int.from_bytes(plain[:2], "little")
