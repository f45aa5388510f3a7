"""Publications and images as native code uses them; run this file as a script for the figures."""

from __future__ import annotations

import timeit
from functools import partial

import pytest

from ordo.transport.streams.image import Assembler
from tests.transport import native_stream as native
from tests.transport.logs import TERM_LENGTH, Stream, make_stream, read_all


@pytest.mark.parametrize("exclusive", [False, True])
def test_append_and_read(exclusive: bool) -> None:
    stream = make_stream(exclusive=exclusive, term_length=1 << 20)
    image = stream.image()
    assert native.append_many(stream.publication, b"ab", b"cd", 100)[:2] == (100, 6400)
    assert native.append_many(stream.publication, b"", b"", 1)[:2] == (1, 6432)
    assert native.append_many(stream.publication, b"", bytes((1 << 17) + 1), 1)[:2] == (0, -6)
    assert native.read_fragments(image, 60)[:2] == (60, 60 * ord("a"))
    assert image.position == 60 * 64
    assert read_all(image) == [b"abcd"] * 40 + [b""]


def test_claims() -> None:
    stream = make_stream()
    assert native.claim_and_fill(stream.publication, b"yes", True) == 64
    assert native.claim_and_fill(stream.publication, b"no", False) == 128
    assert native.claim_and_fill(stream.publication, bytes(1377), True) == -6
    assert read_all(stream.image()) == [b"yes"]


def test_a_log_copied_in_blocks_is_the_same_log() -> None:
    source = make_stream(exclusive=True)
    target = make_stream(exclusive=True)
    for number in range(100):
        while source.publication.offer(bytes([number]) * (number * 20)) < 0:
            pass
    image = source.image()
    while (result := native.append_block_of(target.exclusive, image, 4096)) is not None:
        assert result > 0 or result == -3
    assert target.publication.position == source.publication.position > TERM_LENGTH
    assert [len(message) for message in read_all(target.image())] == [20 * number for number in range(100)]
    with source.log.view() as ours, target.log.view() as theirs:
        assert ours[: 3 * TERM_LENGTH] == theirs[: 3 * TERM_LENGTH]


def test_assembled_message_stays_until_it_is_consumed() -> None:
    stream = make_stream(mtu=64)
    stream.publication.offer(bytes(range(100)))
    stream.publication.offer(b"next")
    image, assembler = stream.image(), Assembler()
    for _ in range(2):
        assert native.peek_message(image, assembler) == (bytes(range(100)), 0, 256)
    assert native.read_messages(image, assembler, 1)[:2] == (1, 100)
    assert native.peek_message(image, assembler) == (b"next", 256, 320)
    assert native.read_messages(image, assembler, 10)[:2] == (1, 4)
    assert native.peek_message(image, assembler) is None


def _touched(exclusive: bool) -> Stream:
    """A stream whose memory is there already, so that page faults are not measured."""
    stream = make_stream(exclusive=exclusive, term_length=1 << 26)
    with stream.log.view() as view:
        for offset in range(0, 1 << 26, 4096):
            view[offset] = 0
    return stream


def main() -> None:
    count = 100_000
    for exclusive in (False, True):
        for length in (32, 288):
            stream = _touched(exclusive)
            payload = bytes(length)
            offer = stream.publication.offer
            best = min(timeit.repeat("offer(payload)", globals=locals(), number=count // 5, repeat=5))
            total = native.read_fragments(stream.image(), count)[2]
            image = stream.image()
            polled = timeit.timeit(partial(image.poll, lambda payload, header: None, count), number=1)
            stream = _touched(exclusive)
            _, _, appended = native.append_many(stream.publication, b"", payload, count)
            kind = "exclusive" if exclusive else "concurrent"
            print(
                f"{kind:10} {length:3} bytes: offer {best / (count // 5) * 1e9:.0f} ns, "
                f"append {appended / count:.1f} ns, "
                f"peek+consume {total / count:.1f} ns, poll {polled / count * 1e9:.0f} ns"
            )


if __name__ == "__main__":
    main()
