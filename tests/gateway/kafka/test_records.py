"""Batches of records, compared with kio's codec, and batches that lie."""

from __future__ import annotations

import gzip
import struct
import sys
from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.errors import DecodeError

pytest.importorskip("kio", reason="needs the extra kafka")

import contextlib

from kio.records.readers import read_batch

from ordo.gateway.kafka.wire.compression import UNCOMPRESSED_BYTES_MAX, CompressionError, TooLongError, find_lack
from ordo.gateway.kafka.wire.record_walk import ENVELOPE, varint
from ordo.gateway.kafka.wire.records import (
    PART_BYTES_MAX,
    RECORDS_MAX,
    Batch,
    Stored,
    decode_batch,
    enclose,
    encode_batch,
    is_compressed,
)
from tests.gateway.kafka.appends import parts_of, payloads_in
from tests.gateway.kafka.batches import TIME_MS, Content, batch_of, compressed, damaged


def payloads_of(batch: bytes) -> list[bytes]:
    """Return the payloads that a batch becomes."""
    found = decode_batch(batch)
    payloads = payloads_in(found.parts)
    assert found.longest == max(map(len, payloads))
    return payloads


CONTENTS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200) | st.binary(max_size=9).map(lambda rest: ENVELOPE + rest),
        st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=9)), max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@given(CONTENTS)
def test_what_a_producer_sends_is_what_a_consumer_gets(contents: list[Content]) -> None:
    payloads = payloads_of(batch_of(contents))
    stored = [Stored(7 + index, TIME_MS + 1000 * index, payload) for index, payload in enumerate(payloads)]
    got, _ = read_batch(encode_batch(stored), 0)
    assert got.base_offset == 7 and got.last_offset_delta == len(contents) - 1
    assert [(one.key, one.value, [(h.key, h.value) for h in one.headers]) for one in got.records] == contents
    assert [one.offset for one in got.records] == [one.number for one in stored]
    assert [round(one.timestamp.timestamp() * 1000) for one in got.records] == [one.timestamp for one in stored]


@given(CONTENTS, st.integers(0, 300))
def test_a_batch_comes_in_parts_that_are_no_longer_than_said_and_not_shorter_than_need_be(
    contents: list[Content], bytes_max: int
) -> None:
    batch = batch_of(contents)
    assert decode_batch(batch, bytes_max).parts == parts_of(payloads_of(batch), bytes_max)


def test_times_are_told_to_the_millisecond() -> None:
    """As kafka-python reads them: kio reads times of records to the second."""
    record = pytest.importorskip("kafka.record", reason="needs kafka-python")
    told = [(7 + index, TIME_MS + after) for index, after in enumerate((123, 123, 999, 1_500))]
    batch = record.MemoryRecords(encode_batch([Stored(number, time, b"x") for number, time in told])).next_batch()
    assert batch.validate_crc() and [(one.offset, one.timestamp) for one in batch] == told


def test_a_value_alone_is_the_payload() -> None:
    assert payloads_of(batch_of([(None, b"buy 40", [])])) == [b"buy 40"]


def test_a_service_s_own_message_is_a_record_without_a_key() -> None:
    got, _ = read_batch(encode_batch([Stored(1, TIME_MS, b"trade")]), 0)
    assert [(one.key, one.value, one.headers) for one in got.records] == [(None, b"trade", ())]


@pytest.mark.parametrize("rest", [b"", b"\x01", b"\x01\x02a", b"\x01\x02a\x06", b"\x7f\x01\x00", b"\xff" * 9])
def test_a_message_that_only_begins_like_an_envelope_is_a_value(rest: bytes) -> None:
    payload = ENVELOPE + rest
    got, _ = read_batch(encode_batch([Stored(1, TIME_MS, payload), Stored(2, TIME_MS, b"next")]), 0)
    assert [(one.key, one.value, one.headers) for one in got.records] == [(None, payload, ()), (None, b"next", ())]


def test_the_producer_s_numbers_are_read() -> None:
    batch = decode_batch(batch_of([(None, b"a", []), (None, b"b", [])], producer=(9, 2, 40)))
    assert batch == Batch(9, 2, 40, False, parts_of([b"a", b"b"], PART_BYTES_MAX), 1)
    assert decode_batch(batch_of([(None, b"a", [])], producer=(9, 2, 40), attributes=0x10)).is_transactional


def test_what_is_compressed_is_told_before_it_is_read() -> None:
    batch = batch_of([(None, b"x", [])])
    assert [is_compressed(one) for one in (b"", batch[:22], batch[:23], batch)] == [False] * 4
    assert is_compressed(compressed(1, b"")) and is_compressed(compressed(4, b"")[:23])


def test_gzip_is_read() -> None:
    batch = batch_of([(b"k", b"v", [])])
    assert payloads_of(compressed(1, gzip.compress(batch[61:]))) == payloads_of(batch)


@pytest.mark.parametrize("kind", [5, 6, 7])
def test_other_compressions_are_refused(kind: int) -> None:
    with pytest.raises(CompressionError, match=f"gzip, snappy, lz4, zstd: kind={kind}"):
        decode_batch(compressed(kind, b"whatever"))


def packed(name: str, body: bytes) -> tuple[int, bytes]:
    """Return the number of a compression, and what it makes of a body."""
    cramjam = pytest.importorskip("cramjam", reason="needs the extra kafka")
    if name == "lz4":
        return 3, bytes(cramjam.lz4.compress(body))
    if name == "zstd":
        return 4, bytes(cramjam.zstd.compress(body))
    if name == "snappy":
        return 2, bytes(cramjam.snappy.compress_raw(body))
    blocks = [bytes(cramjam.snappy.compress_raw(one)) for one in (body[:20], body[20:])]
    java = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return 2, java + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


PACKED = ("lz4", "zstd", "snappy", "java snappy")


@pytest.mark.parametrize("name", PACKED)
def test_what_the_others_compress_is_read(name: str) -> None:
    batch = batch_of([(b"k", b"v" * 100, [])])
    assert payloads_of(compressed(*packed(name, batch[61:]))) == payloads_of(batch)


@pytest.mark.parametrize("name", PACKED)
def test_what_would_become_too_long_is_refused(name: str) -> None:
    kind, bomb = packed(name, bytes(UNCOMPRESSED_BYTES_MAX + 1))
    with pytest.raises(TooLongError, match="has more than"):
        decode_batch(compressed(kind, bomb))
    exact = compressed(*packed(name, bytes(UNCOMPRESSED_BYTES_MAX)))
    with pytest.raises(DecodeError) as refused:
        decode_batch(exact)
    assert not isinstance(refused.value, TooLongError), "it is unpacked, and no records are in it"


@pytest.mark.parametrize("name", PACKED)
def test_every_cut_of_what_is_compressed_is_refused(name: str) -> None:
    kind, body = packed(name, batch_of([(b"k", b"v" * 100, [])])[61:])
    for length in range(len(body)):
        with pytest.raises(DecodeError):
            decode_batch(compressed(kind, body[:length]))


@pytest.mark.parametrize("name", PACKED)
def test_whatever_is_changed_in_what_is_compressed_only_refusals_come_out(name: str) -> None:
    """The checksum is made to fit, so that the bytes reach the codec."""
    random = Random(7)
    kind, body = packed(name, batch_of([(b"k", random.randbytes(300) + bytes(300), [])])[61:])
    refused = 0
    for _ in range(500):
        changed = bytearray(body)
        for _ in range(random.randint(1, 4)):
            changed[random.randrange(len(changed))] = random.choice((0, 0x7F, 0x80, 0xFF, random.randrange(256)))
        try:
            decode_batch(compressed(kind, bytes(changed)))
        except DecodeError:
            refused += 1
    assert refused > 0


def test_without_cramjam_it_is_said_what_would_mend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    batch = batch_of([(b"k", b"v" * 100, [])])
    for kind in (2, 3, 4):
        with pytest.raises(CompressionError, match=r"need cramjam: pip install 'ordo-sequencer\[kafka\]'"):
            decode_batch(compressed(kind, batch[61:]))
    assert find_lack() == "snappy, lz4 and zstd need cramjam: pip install 'ordo-sequencer[kafka]'"
    assert payloads_of(compressed(1, gzip.compress(batch[61:]))) == payloads_of(batch)
    monkeypatch.setitem(sys.modules, "cramjam", ModuleType("cramjam"))
    assert find_lack() == ""


def test_lengths_that_lie_are_refused() -> None:
    java = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for blocks in (b"\xff\xff\xff\xff", b"\0\0\0\0" * 9, b"\x7f\xff\xff\xff" + b"x" * 9):
        with pytest.raises(DecodeError, match="do not add up"):
            decode_batch(compressed(2, java + blocks))
    _, block = packed("snappy", b"x")
    with pytest.raises(TooLongError):
        decode_batch(compressed(2, b"\xff\xff\xff\xff\x0f" + block))  # it says 4 GiB


def test_a_batch_that_would_not_fit_into_memory_is_refused() -> None:
    bomb = gzip.compress(bytes(UNCOMPRESSED_BYTES_MAX + 1))
    assert len(bomb) < 20_000
    with pytest.raises(TooLongError, match="has more than"):
        decode_batch(compressed(1, bomb))
    with pytest.raises(DecodeError, match="is cut off"):
        decode_batch(compressed(1, gzip.compress(b"abc")[:-4]))
    with pytest.raises(DecodeError, match="not compressed with gzip"):
        decode_batch(compressed(1, b"abc"))


def test_every_cut_is_refused() -> None:
    batch = batch_of([(b"key", b"value", [(b"name", b"content")]), (None, None, [])])
    for length in range(len(batch)):
        with pytest.raises(DecodeError):
            decode_batch(batch[:length])
        with pytest.raises(DecodeError):
            decode_batch(damaged(batch[:8] + struct.pack(">i", length - 12) + batch[12:length], 21, b"\0\0"))


@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        (16, b"\1", "magic=1"),
        (21, struct.pack(">h", 0x20), "attributes=32"),
        (57, struct.pack(">i", 0), "a batch of 0 records"),
        (57, struct.pack(">i", 2**31 - 1), "a batch of 2147483647 records"),
        (57, struct.pack(">i", -1), "a batch of -1 records"),
        (43, struct.pack(">q", 5), "without a sequence"),
        (61, b"\x7f", "a record of -64 bytes"),
        (61, b"\xfe\xff\xff\xff\x7f", "a record of"),
        (61, b"\xff" * 6, "too long"),
        (64, b"\x02", "says that it is record 1"),
        (65, b"\x03", "do not add up"),
        (77, b"\x06", "fewer headers than it says"),
    ],
)
def test_a_batch_that_lies_is_refused(at: int, value: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode_batch(damaged(batch_of([(None, b"0123456789", [])]), at, value))


@given(st.data())
def test_no_bytes_make_another_error(data: st.DataObject) -> None:
    batch = batch_of([(b"key", b"value", [(b"name", b"content")]), (None, b"x", [])])
    at = data.draw(st.integers(21, len(batch) - 1))
    changed = damaged(batch, at, data.draw(st.binary(min_size=1, max_size=len(batch) - at)))
    with contextlib.suppress(DecodeError):
        decode_batch(changed)


def test_a_wrong_checksum_is_refused() -> None:
    batch = batch_of([(None, b"x", [])])
    with pytest.raises(DecodeError, match="checksum"):
        decode_batch(batch[:-1] + b"y")


def many(count: int) -> bytes:
    """A compressed batch of so many empty records: a few kilobytes."""
    records = b"".join(_empty_record(index) for index in range(count))
    batch = compressed(1, gzip.compress(records))
    return damaged(batch, 57, struct.pack(">i", count))


def _empty_record(index: int) -> bytes:
    body = b"\0\0" + varint(index) + b"\x01\0\0"
    return varint(len(body)) + body


def test_a_batch_has_no_more_records_than_are_decoded_in_a_short_time() -> None:
    batch = many(RECORDS_MAX)
    assert len(batch) < 300_000 and payloads_of(batch) == [b""] * RECORDS_MAX
    with pytest.raises(TooLongError, match=f"at most {RECORDS_MAX}"):
        decode_batch(many(RECORDS_MAX + 1))


@given(st.binary(max_size=99) | st.binary(max_size=9).map(lambda rest: ENVELOPE + rest))
def test_a_value_with_headers_is_a_record_that_a_client_reads(value: bytes) -> None:
    payload = enclose(value, {"ordo.kind": "message", "ordo.session": "-7"})
    got, _ = read_batch(encode_batch([Stored(1, TIME_MS, payload)]), 0)
    (record,) = got.records
    assert (record.key, record.value) == (None, value)
    assert {one.key: one.value for one in record.headers} == {b"ordo.kind": b"message", b"ordo.session": b"-7"}
