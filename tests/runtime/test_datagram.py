"""The datagram seam: channels written in Python are reachable from native callers and back."""

import errno
from collections import deque

import pytest

from ordo.runtime.io.datagram import DatagramChannel, DatagramNetwork, PythonDatagramChannel


class Loop(PythonDatagramChannel):
    def __init__(self, room: int = 10) -> None:
        self.queue: deque[tuple[bytes, bytes]] = deque()
        self.room = room

    def send_datagram(self, payload: bytes, to: bytes) -> bool:
        if len(self.queue) >= self.room:
            return False
        self.queue.append((payload, to))
        return True

    def receive_datagram(self) -> tuple[bytes, bytes] | None:
        return self.queue.popleft() if self.queue else None


def test_segments_are_sent_as_datagrams_of_their_own() -> None:
    channel = Loop()
    assert channel.send_bytes(b"aabbc", b"\x02\x00addr", segment_length_bytes=2) == 1
    assert channel.receive_bytes(2) == [(b"aa", b"\x02\x00addr"), (b"bb", b"\x02\x00addr")]
    assert channel.receive_bytes() == [(b"c", b"\x02\x00addr")]
    assert channel.receive_bytes() == []


def test_full_channel_takes_nothing() -> None:
    channel = Loop(room=1)
    assert channel.send_bytes(b"a") == 1
    assert channel.send_bytes(b"b") == 0


def test_errors_become_codes() -> None:
    class Broken(Loop):
        def send_datagram(self, payload: bytes, to: bytes) -> bool:
            raise OSError(errno.ENETUNREACH, "unreachable")

        def receive_datagram(self) -> tuple[bytes, bytes] | None:
            raise ValueError("bug")

    channel = Broken()
    with pytest.raises(OSError, match="ENETUNREACH"):
        channel.send_bytes(b"a")
    with pytest.raises(OSError, match="EIO"):
        channel.receive_bytes()
    assert str(channel.failure) == "bug"


def test_base_classes_refuse() -> None:
    with pytest.raises(OSError, match="ENOSYS"):
        DatagramChannel().send_bytes(b"a")
    with pytest.raises(OSError, match="ENOSYS"):
        DatagramNetwork().select_channels(0)
    with pytest.raises(ValueError, match="at most 28"):
        Loop().send_bytes(b"a", bytes(29))
