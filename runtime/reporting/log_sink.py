"""The log output of a long-running program: lines that cannot be written are dropped and counted.

A full disk, a pipe whose reader has gone or has stopped reading, a terminal that was closed: none of them is a reason
to end, or to wait, for programs that serve a cluster. The first line that can be written again comes after one that
says how many are missing.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, TextIO, cast

from ordo.runtime.reporting.output import OutputStream

WAIT_MS = 20
"""How long a line waits for a slow reader (ms); while lines are dropped they do not wait at all."""
CHUNK_BYTES = select.PIPE_BUF
"""A pipe that has room for anything has room for as much."""
UNFINISHED_LINE_MAX = 65_536

Notice = Callable[[int, str], str]
Watch = Callable[[str, bool], None]
_watches: list[Watch] = []
"""The sink of this process, or None."""


def plain_notice(count: int, trouble: str) -> str:
    """Return the line that reports dropped lines, for a sink without a notice of its own."""
    return f"ordo: {count} lines could not be written here: {trouble}\n"


class LogSink:
    """A stream whose `write` never raises, and waits at most WAIT_MS for a reader."""

    def __init__(self, stream: IO[str] | None, notice: Notice = plain_notice) -> None:
        self.notice = notice
        self.dropped_count = 0
        """The number of lines dropped since the start."""
        self.trouble = ""
        """Why the last line that was dropped could not be written; empty again once one can be."""
        self._stream = stream
        self._descriptor = _descriptor_of(stream)
        self._missing = 0  # since a line could last be written
        self._is_torn = False
        self._lock = threading.RLock()  # a signal handler logs, too, perhaps in the middle of another line

    def write(self, line: str) -> None:
        """Write a line, which ends with a newline, or drop it."""
        with self._lock:
            try:
                if self._missing:
                    self._write(self.notice(self._missing, self.trouble))
                    self._missing, self.trouble = 0, ""
                self._write(line)
            except (OSError, ValueError) as error:
                self._missing += 1
                self.dropped_count += 1
                self.trouble = str(error)
                for watch in _watches:
                    watch(self.trouble, self._missing == 1)

    def _write(self, line: str) -> None:
        if self._descriptor < 0:
            if self._stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            self._stream.write(line)
            self._stream.flush()
            return
        data = memoryview(("\n" * self._is_torn + line).encode("utf-8", "backslashreplace"))
        offset = 0
        while offset < len(data):
            self._await_room()
            offset += os.write(self._descriptor, data[offset : offset + CHUNK_BYTES])
            self._is_torn = offset < len(data)

    def _await_room(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        if not poll.poll(0 if self._missing else WAIT_MS):
            raise OSError(errno.EAGAIN, "its reader does not read")


def _descriptor_of(stream: IO[str] | None) -> int:
    """Return the stream's descriptor, so that nothing waits in a buffer; -1 when it has none."""
    try:
        if stream is None:
            return -1
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError):
        return -1


class SinkStream(io.TextIOBase):
    """A stand-in for `sys.stdout` or `sys.stderr` of a long-running program, and of the services in it."""

    def __init__(self, stream: Any) -> None:
        if isinstance(stream, OutputStream):
            stream = stream.stream
        self.sink = LogSink(stream)
        self._stream = stream
        self._line = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            whole, newline, rest = (self._line + text).rpartition("\n")
            self._line = rest
            if newline:
                self.sink.write(whole + newline)
            if len(rest) > UNFINISHED_LINE_MAX:
                self.flush()
        return len(text)

    def flush(self) -> None:
        with self._lock:
            text, self._line = self._line, ""
            if text:
                self.sink.write(text)

    def isatty(self) -> bool:
        return self._stream is not None and not self._stream.closed and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("closed")
        return int(self._stream.fileno())

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def buffer(self) -> Any:
        """The stream of bytes below; None when there is none."""
        return getattr(self._stream, "buffer", None)


def drop_what_cannot_be_written() -> None:
    """Replace `sys.stdout` and `sys.stderr` with SinkStreams: nothing that is printed raises from now on.

    Idempotent.
    """
    if not isinstance(sys.stdout, SinkStream):
        sys.stdout = cast(TextIO, SinkStream(sys.stdout))
    if not isinstance(sys.stderr, SinkStream):
        sys.stderr = cast(TextIO, SinkStream(sys.stderr))


def dropped_line_count() -> int:
    """Return how many lines of this process could not be written since its start."""
    streams = (sys.stdout, sys.stderr)
    return sum(one.sink.dropped_count for one in streams if isinstance(one, SinkStream))


def watch_drops(watch: Watch | None) -> None:
    """Have `watch` called for each dropped line of this process; None ends that.

    It gets the reason, and whether the line is the first one in a row. It must neither raise nor log.
    """
    _watches[:] = [] if watch is None else [watch]
