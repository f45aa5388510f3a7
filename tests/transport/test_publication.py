"""Publications: result codes, misuse, claims, blocks, the end of a stream (log-buffer.md §3-§5)."""

import re
import struct

import pytest

from ordo.runtime.errors import PublicationError
from ordo.transport.streams.publication import (
    RESULT_ADMIN_ACTION,
    RESULT_BACK_PRESSURED,
    RESULT_CLOSED,
    RESULT_MAX_POSITION_EXCEEDED,
    RESULT_NOT_CONNECTED,
    describe_result,
)
from tests.transport.logs import INITIAL_TERM_ID, SESSION_ID, STREAM_ID, TERM_LENGTH, Stream, make_stream, read_all

both = pytest.mark.parametrize("exclusive", [False, True])


def frame(
    payload: bytes,
    *,
    offset: int,
    length: int | None = None,
    flags: int = 0xC0,
    kind: int = 1,
    term_id: int = INITIAL_TERM_ID,
    session_id: int = SESSION_ID,
) -> bytes:
    length = 32 + len(payload) if length is None else length
    header = struct.pack("<iBBHiiiiq", length, 0, flags, kind, offset, session_id, STREAM_ID, term_id, 0)
    return (header + payload).ljust(-(-(32 + len(payload)) // 32) * 32, b"\0")


def log_bytes(stream: Stream, start: int, end: int) -> bytes:
    with stream.log.view() as view:
        return bytes(view[start:end])


@both
def test_golden_frame(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive)
    assert stream.publication.offer(b"hello") == 64
    assert log_bytes(stream, 0, 96) == bytes.fromhex(
        "25000000 00c0 0100 00000000 f0efefff e9030000 feffff7f 0000000000000000 68656c6c6f"
    ).ljust(96, b"\0")


@both
def test_golden_fragments(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive, mtu=64)
    assert stream.publication.offer(b"a" * 32 + b"b" * 32 + b"c") == 192
    assert log_bytes(stream, 0, 192) == (
        frame(b"a" * 32, offset=0, flags=0x80)
        + frame(b"b" * 32, offset=64, flags=0x00)
        + frame(b"c", offset=128, flags=0x40)
    )


@both
@pytest.mark.parametrize("mtu", [64, 1408])
@pytest.mark.parametrize("fragments", [1, 2, 5])
@pytest.mark.parametrize("edge", [-1, 0, 1])
@pytest.mark.parametrize("cut", [0, 1, 33, None])
def test_gather_of_two_parts_is_one_message(exclusive: bool, mtu: int, fragments: int, edge: int, cut: int) -> None:
    stream = make_stream(exclusive=exclusive, mtu=mtu)
    image = stream.image()
    payload = bytes(i % 251 for i in range(fragments * (mtu - 32) + edge))
    cut = len(payload) if cut is None else cut
    assert stream.publication.offer(payload[:cut], payload[cut:]) > 0
    assert read_all(image) == [payload]


@both
def test_one_mebibyte_zero_bytes_and_one_byte(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive, term_length=1 << 23)
    image = stream.image()
    payload = bytes(range(256)) * 4096
    assert len(payload) == 1 << 20 == stream.publication.max_message_length
    for message in (b"", b"x", payload):
        assert stream.publication.offer(message) > 0
    assert read_all(image) == [b"", b"x", payload]


def test_message_length_is_limited_to_sixteen_mebibytes() -> None:
    assert make_stream(term_length=1 << 28).publication.max_message_length == 16 << 20


@both
def test_too_long_messages_are_refused_in_one_line(exclusive: bool) -> None:
    publication = make_stream(exclusive=exclusive).publication
    for pieces in ([bytes(8193)], [bytes(8000), bytes(193)]):
        with pytest.raises(PublicationError, match="max_message_length=8192") as caught:
            publication.offer(*pieces)
        assert "\n" not in caught.value.message
    for length in (1377, -1):
        with pytest.raises(PublicationError, match="allowed are 0 to 1376"):
            publication.try_claim(length)
    with pytest.raises(TypeError):
        publication.offer("text")  # type: ignore[arg-type]
    assert publication.position == 0


@both
def test_not_connected_then_back_pressured(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive, limit=0)
    assert stream.publication.offer(b"x") == RESULT_NOT_CONNECTED
    assert not stream.publication.try_claim(1)
    stream.log.connected = True
    assert stream.publication.offer(b"x") == RESULT_BACK_PRESSURED
    assert stream.publication.is_connected
    stream.limit.set(1)
    assert stream.publication.offer(bytes(8192)) > 8192
    assert stream.publication.offer(b"") == RESULT_BACK_PRESSURED
    assert stream.publication.available_window == 1 - stream.publication.position


@both
def test_closed(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive)
    claim = stream.publication.try_claim(8)
    with stream.publication as publication:
        assert not publication.is_closed
    assert publication.is_closed
    assert publication.offer(b"x") == RESULT_CLOSED
    assert (publication.position, publication.position_limit, publication.available_window) == (RESULT_CLOSED,) * 3
    assert publication.try_claim(1).position == RESULT_CLOSED
    assert not publication.is_connected
    with pytest.raises(PublicationError, match="closed before"):
        claim.commit()


@both
def test_rotation_is_an_admin_action_and_pads_the_rest(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive, term_offset=TERM_LENGTH - 64)
    image = stream.image(TERM_LENGTH - 64)
    assert stream.publication.offer(bytes(33)) == RESULT_ADMIN_ACTION
    assert log_bytes(stream, TERM_LENGTH - 64, TERM_LENGTH - 32) == frame(
        b"", offset=TERM_LENGTH - 64, length=64, kind=0
    )
    assert stream.publication.offer(bytes(33)) == TERM_LENGTH + 96
    assert read_all(image) == [bytes(33)]
    assert image.position == TERM_LENGTH + 96
    assert stream.log.tails()[1][0] == INITIAL_TERM_ID + 1


@both
def test_a_message_that_just_fits_needs_no_padding(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive, term_offset=TERM_LENGTH - 64)
    assert stream.publication.offer(bytes(32)) == TERM_LENGTH
    assert stream.publication.offer(bytes(32)) == RESULT_ADMIN_ACTION
    assert stream.publication.offer(bytes(32)) == TERM_LENGTH + 64
    assert read_all(stream.image(TERM_LENGTH - 64)) == [bytes(32)] * 2


@both
def test_end_of_the_stream(exclusive: bool) -> None:
    last_term_id = (INITIAL_TERM_ID + (1 << 31) - 1 + (1 << 31)) % (1 << 32) - (1 << 31)
    stream = make_stream(exclusive=exclusive, term_id=last_term_id, term_offset=TERM_LENGTH - 128)
    publication = stream.publication
    end = publication.max_possible_position
    assert end == TERM_LENGTH << 31
    assert publication.position == end - 128
    assert publication.offer(b"x") == end - 64
    assert publication.offer(bytes(100)) == RESULT_MAX_POSITION_EXCEEDED
    assert publication.offer(b"") == RESULT_MAX_POSITION_EXCEEDED
    assert publication.position == end
    stream.limit.set(end - 128)
    assert publication.offer(b"") == RESULT_MAX_POSITION_EXCEEDED
    assert publication.try_claim(1).position == RESULT_MAX_POSITION_EXCEEDED


def test_concurrent_publications_share_a_log() -> None:
    stream = make_stream()
    other = type(stream.publication)(stream.log, stream.limit)
    image = stream.image()
    assert stream.publication.offer(b"a") == 64
    assert other.offer(b"b") == 128
    assert stream.publication.position == other.position == 128
    assert read_all(image) == [b"a", b"b"]


@both
def test_claim_is_invisible_until_commit(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive)
    image = stream.image()
    claim = stream.publication.try_claim(4)
    claim.buffer[:] = b"abcd"
    claim.reserved_value = -5
    claim.flags |= 0x01
    assert (claim.flags, claim.reserved_value) == (0xC1, -5)
    assert read_all(image) == []
    assert claim.commit() == 64
    found = []
    image.poll(lambda payload, header: found.append((payload, header.flags, header.reserved_value)))
    assert found == [(b"abcd", 0xC1, -5)]
    for call in (claim.commit, claim.abort, lambda: claim.buffer, lambda: claim.flags):
        with pytest.raises(PublicationError, match="committed or aborted"):
            call()


@both
def test_claim_is_aborted_by_an_exception(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive)
    image = stream.image()
    with pytest.raises(ZeroDivisionError), stream.publication.try_claim(4):
        raise ZeroDivisionError
    assert stream.publication.offer(b"next") == 128
    assert read_all(image) == [b"next"]


def test_view_of_a_claim_must_be_released_before_commit() -> None:
    stream = make_stream()
    claim = stream.publication.try_claim(4)
    held = re.finditer(b".", claim.buffer)
    with pytest.raises(PublicationError, match="still held"):
        claim.commit()
    del held
    assert claim.commit() == 64


def test_block_of_frames_is_appended_as_it_is() -> None:
    source = make_stream(exclusive=True)
    target = make_stream(exclusive=True)
    for number in range(20):
        source.publication.offer(bytes([number]) * number * 100)
    end = source.publication.position
    with source.log.view() as view, view[:end] as block:
        assert target.exclusive.offer_block(block) == end
    assert log_bytes(target, 0, TERM_LENGTH) == log_bytes(source, 0, TERM_LENGTH)
    assert target.log.tail_position == target.publication.position == end
    assert len(read_all(target.image())) == 20


def test_block_at_the_end_of_a_term_rotates_first() -> None:
    stream = make_stream(exclusive=True, term_offset=TERM_LENGTH - 32)
    assert stream.exclusive.offer_block(frame(b"", offset=TERM_LENGTH - 32)) == TERM_LENGTH
    assert stream.exclusive.offer_block(frame(b"x", offset=0, term_id=INITIAL_TERM_ID + 1)) == TERM_LENGTH + 64
    assert read_all(stream.image(TERM_LENGTH - 32)) == [b"", b"x"]


@pytest.mark.parametrize(
    "block",
    [
        b"",
        bytes(64),
        frame(b"x", offset=32),
        frame(b"x", offset=0)[:33],
        frame(b"x", offset=0, kind=0),
        frame(b"x", offset=0, term_id=7),
        frame(b"x", offset=0, session_id=7),
        frame(b"x", offset=0, length=-33),
    ],
)
def test_block_that_does_not_belong_is_refused(block: bytes) -> None:
    stream = make_stream(exclusive=True)
    with pytest.raises(PublicationError, match="does not fit"):
        stream.exclusive.offer_block(block)
    assert stream.publication.position == stream.log.tail_position == 0


def test_block_under_back_pressure_and_when_closed() -> None:
    stream = make_stream(exclusive=True, limit=0)
    assert stream.exclusive.offer_block(frame(b"x", offset=0)) == RESULT_NOT_CONNECTED
    stream.publication.close()
    assert stream.exclusive.offer_block(frame(b"x", offset=0)) == RESULT_CLOSED
    assert stream.exclusive.offer_padding(1) == RESULT_CLOSED


def test_padding_is_limited_to_what_the_longest_message_takes() -> None:
    stream = make_stream(exclusive=True)
    longest = 5 * 1408 + 1344
    assert stream.exclusive.offer_padding(longest) == -(-(longest + 32) // 32) * 32
    with pytest.raises(PublicationError, match=f"0 to {longest}"):
        stream.exclusive.offer_padding(longest + 1)
    assert read_all(stream.image()) == []


def test_exclusive_publication_goes_on_where_the_log_ends() -> None:
    stream = make_stream(exclusive=True)
    for _ in range(3):
        stream.publication.offer(bytes(100))
    again = type(stream.exclusive)(stream.log, stream.limit)
    assert again.position == 3 * 160
    assert (again.current_term_id, again.current_term_offset) == (INITIAL_TERM_ID, 480)
    assert again.offer(b"x") == 544


def test_results_have_names() -> None:
    assert describe_result(64) == "position=64"
    assert describe_result(RESULT_BACK_PRESSURED) == "back pressured"
    assert describe_result(-99) == "unknown result -99"


def test_what_a_publication_tells() -> None:
    publication = make_stream(mtu=4096).publication
    assert (publication.session_id, publication.stream_id) == (SESSION_ID, STREAM_ID)
    assert (publication.max_payload_length, publication.max_message_length) == (4064, 8192)
    assert (publication.term_length, publication.mtu, publication.initial_term_id) == (65536, 4096, INITIAL_TERM_ID)
    assert publication.is_original
    assert (publication.channel_status, publication.local_socket_addresses) == (1, [])


@both
def test_many_messages_at_once(exclusive: bool) -> None:
    """All of them, in order and over the end of a term, whatever they are made of."""
    stream = make_stream(exclusive=exclusive)
    payloads = [bytes([number % 251]) * 1000 for number in range(100)]
    assert stream.publication.offer_many(payloads[:50]) == 50
    assert stream.publication.offer_many(map(bytearray, payloads[50:])) == 50
    assert read_all(stream.image()) == payloads
    assert stream.publication.offer_many([]) == 0
    assert stream.publication.offer_many([b"", memoryview(b"ab")]) == 2


@both
def test_as_many_as_there_is_room_for(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive, limit=128)
    assert stream.publication.offer_many([bytes(32)] * 5) == 2
    assert stream.publication.offer(bytes(32)) == RESULT_NOT_CONNECTED
    stream.publication.close()
    assert stream.publication.offer_many([b"x"]) == 0


@both
def test_those_before_a_message_that_is_too_long_are_taken(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive)
    with pytest.raises(PublicationError, match=r"message 2 of those offered .* max_message_length=8192 .* 2 before it"):
        stream.publication.offer_many([b"a", b"b", bytes(8193), b"c"])
    assert read_all(stream.image()) == [b"a", b"b"]
