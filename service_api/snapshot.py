"""Snapshots as a service sees them: a file to write to, and the same file to read from.

Two ways of one stream, which may be mixed: `write` and `read` see bytes and no boundaries (so `pickle.dump`,
`json.dump` through a text wrapper, or `struct` records work), `write_message` and `messages` keep each message whole.
Underneath both are messages of an archive recording (cluster-consensus.md §16.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from ordo.runtime.errors import SnapshotError
from ordo.runtime.payloads import view_of

Buffer: TypeAlias = bytes | bytearray | memoryview

CHUNK_BYTES = 64 * 1024
"""`write` gathers small pieces into messages of this length."""


class SnapshotWriter:
    """The file that a service writes its state to.

    `append` gets one message at a time; `message_bytes_max` is its limit.
    """

    def __init__(self, append: Callable[[bytes], None], message_bytes_max: int) -> None:
        self._append = append
        self._pending = bytearray()
        self._chunk_bytes = min(CHUNK_BYTES, message_bytes_max)
        self.message_bytes_max = message_bytes_max
        self.written_bytes = 0
        self.closed = False

    def write(self, data: Buffer) -> int:
        """Append bytes of any length and return their number. Raises SnapshotError after the callback has ended."""
        self._check_open()
        view = view_of(data, "what a snapshot is written from")
        self._pending += view
        self.written_bytes += len(view)
        while len(self._pending) >= self._chunk_bytes:
            self._append(bytes(self._pending[: self._chunk_bytes]))
            del self._pending[: self._chunk_bytes]
        return len(view)

    def write_message(self, data: Buffer) -> None:
        """Append one message that `SnapshotReader.messages` gives back whole.

        Raises SnapshotError when it is empty or longer than `message_bytes_max`.
        """
        self._check_open()
        message = bytes(data)
        if not 0 < len(message) <= self.message_bytes_max:
            raise SnapshotError(
                f"snapshot message of {len(message)} bytes; 1 to {self.message_bytes_max} are allowed: "
                "use write() for more"
            )
        self.flush()
        self._append(message)
        self.written_bytes += len(message)

    def writable(self) -> bool:
        """Return True; wrappers of binary files, such as those of `io`, ask for it."""
        return True

    def flush(self) -> None:
        """End the message that `write` was gathering."""
        if self._pending:
            self._append(bytes(self._pending))
            self._pending.clear()

    def close(self) -> None:
        """Write the buffered rest and close, after `on_take_snapshot`."""
        self.flush()
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise SnapshotError("the snapshot is complete; write only while on_take_snapshot runs")


class SnapshotReader:
    """The file that a service reads its state from, in messages and in order."""

    def __init__(self, messages: Iterable[bytes]) -> None:
        self._messages = iter(messages)
        self._message = b""
        self._offset = 0

    def messages(self) -> Iterator[bytes]:
        """Yield the messages that were not read yet, each whole; first the rest of one that `read` stopped in."""
        while self._fill():
            yield self._take(len(self._message))

    __iter__ = messages

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes (all when negative); fewer only at the end of the snapshot."""
        parts: list[bytes] = []
        missing = size if size >= 0 else 1 << 62
        while missing > 0 and self._fill():
            part = self._take(missing)
            missing -= len(part)
            parts.append(part)
        return b"".join(parts)

    def read_exactly(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises SnapshotError when the snapshot ends before."""
        data = self.read(size)
        if len(data) != size:
            raise SnapshotError(f"the snapshot ends after {len(data)} bytes of the {size} that were asked for")
        return data

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Read into the buffer; return how many bytes it filled, 0 at the end."""
        view = view_of(buffer, "what a snapshot is read into")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readline(self, size: int = -1) -> bytes:
        """Return the bytes up to and including the next newline, or `size` bytes."""
        parts: list[bytes] = []
        missing = size if size >= 0 else 1 << 62
        while missing > 0 and self._fill():
            end = self._message.find(b"\n", self._offset) + 1
            part = self._take(min(missing, end - self._offset) if end else missing)
            missing -= len(part)
            parts.append(part)
            if part.endswith(b"\n"):
                break
        return b"".join(parts)

    def readable(self) -> bool:
        """Return True; wrappers of binary files, such as those of `io`, ask for it."""
        return True

    def _fill(self) -> bool:
        """Return whether there are bytes at the offset, after stepping to the next message where needed."""
        while self._offset == len(self._message):
            message = next(self._messages, None)
            if message is None:
                return False
            self._message, self._offset = message, 0
        return True

    def _take(self, size: int) -> bytes:
        start = self._offset
        self._offset = min(start + size, len(self._message))
        return self._message[start : self._offset]
