"""Unblocking a concurrent publication whose writer died (log-buffer.md §9)."""

import struct

import pytest

from ordo.transport.streams.unblock import unblock
from tests.transport.logs import INITIAL_TERM_ID, TERM_LENGTH, Stream, make_stream, read_all

TAILS = 3 * TERM_LENGTH


def wipe(stream: Stream, start: int, end: int) -> None:
    with stream.log.view() as view:
        view[start:end] = bytes(end - start)


def put_tail(stream: Stream, index: int, term_id: int, offset: int) -> None:
    with stream.log.view() as view:
        struct.pack_into("<q", view, TAILS + 8 * index, (term_id << 32) | offset)


def test_nothing_to_do() -> None:
    stream = make_stream()
    assert not unblock(stream.log, 0)
    stream.publication.offer(b"there")
    assert not unblock(stream.log, 0)


def test_writer_died_after_it_claimed() -> None:
    stream = make_stream()
    claim = stream.publication.try_claim(100)
    stream.publication.offer(b"after")
    assert read_all(stream.image()) == []
    assert unblock(stream.log, 0)
    assert read_all(stream.image()) == [b"after"]
    with stream.log.view() as view:
        assert struct.unpack_from("<iBBHii", view) == (132, 0, 0xC0, 0, 0, stream.log.session_id)
    assert claim


def test_writer_died_before_it_wrote_anything() -> None:
    stream = make_stream()
    stream.publication.try_claim(100)
    wipe(stream, 0, 160)
    assert not unblock(stream.log, 0), "nothing was written behind the hole: its writer may still be at it"
    stream.publication.offer(b"after")
    assert unblock(stream.log, 0)
    assert read_all(stream.image()) == [b"after"]


def test_two_holes_in_a_row_are_one() -> None:
    stream = make_stream()
    stream.publication.try_claim(100)
    stream.publication.try_claim(100)
    stream.publication.offer(b"after")
    wipe(stream, 0, 320)
    assert unblock(stream.log, 0)
    image = stream.image()
    assert read_all(image) == [b"after"]
    with stream.log.view() as view:
        assert struct.unpack_from("<i", view) == (320,)


@pytest.mark.parametrize("tail_offset", [TERM_LENGTH, TERM_LENGTH + 256])
def test_hole_to_the_end_of_the_term_is_padded_and_rotated(tail_offset: int) -> None:
    stream = make_stream(term_offset=TERM_LENGTH - 128)
    put_tail(stream, 0, INITIAL_TERM_ID, tail_offset)
    assert unblock(stream.log, TERM_LENGTH - 128)
    assert stream.log.term_count == 1
    assert stream.publication.offer(b"next") == TERM_LENGTH + 64
    assert read_all(stream.image(TERM_LENGTH - 128)) == [b"next"]


def test_writer_died_before_it_rotated() -> None:
    stream = make_stream(term_offset=TERM_LENGTH - 64)
    stream.publication.offer(bytes(32))
    put_tail(stream, 0, INITIAL_TERM_ID, TERM_LENGTH + 64)
    assert stream.log.term_count == 0
    assert unblock(stream.log, TERM_LENGTH)
    assert (stream.log.term_count, stream.log.tails()[1]) == (1, (INITIAL_TERM_ID + 1, 0))
    assert not unblock(stream.log, TERM_LENGTH)
    assert stream.publication.offer(b"x") == TERM_LENGTH + 64


def test_position_of_another_term_is_left_alone() -> None:
    stream = make_stream()
    assert not unblock(stream.log, 2 * TERM_LENGTH)
    assert stream.log.term_count == 0
