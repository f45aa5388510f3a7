"""Standard output and standard error of a command: escapes control characters, and notices failed writes.

Names, aliases and error texts come from strangers. A terminal obeys the control characters in them, so all that a
command prints passes `printable`.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

EXIT_OUTPUT_LOST = 74
"""What was printed could not be written (EX_IOERR of sysexits.h)."""
EXIT_PIPE_CLOSED = 141
"""The reader of a pipe has gone, as in `ordo log ... | head`; shells show this for programs that SIGPIPE ended."""
LINES = "\n\t"
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with everything that a terminal would obey as an escape sequence.

    So `\x1b` is written for ESC; what a line would break at is escaped as well.

    These are control characters, separators of lines, marks that turn the direction of text, and halves of surrogate
    pairs. `keep` names those that stay: LINES for a text of several lines.
    """

    def escape(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else found[0].encode("unicode_escape").decode("ascii")

    return _UNPRINTABLE.sub(escape, text)


class OutputLost(Exception):
    """The error of a standard output that cannot be written.

    It ends a command, and is not an OSError, which libraries would take for theirs.
    """


class OutputStream(io.TextIOBase):
    """A stand-in for `sys.stdout` or `sys.stderr` of a command.

    The first failure is kept in `failure`, and raised as OutputLost unless the stream `is_lossy`.
    """

    def __init__(self, stream: TextIO | None, *, is_lossy: bool = False) -> None:
        self.stream = stream
        self.failure: OSError | None = None
        self._is_lossy = is_lossy
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale that lacks a character is no reason to fail

    def write(self, text: str) -> int:
        self.write_unescaped(printable(text, LINES))
        return len(text)

    def write_unescaped(self, text: str) -> None:
        """Write data for programs, or text with escape codes that this process made itself."""
        try:
            if self.stream is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            self.stream.write(text)
        except (OSError, ValueError) as error:
            self._fail(error)

    def flush(self) -> None:
        try:
            if self.stream is not None:
                self.stream.flush()
        except (OSError, ValueError) as error:
            self._fail(error)

    def _fail(self, error: OSError | ValueError) -> None:
        if self.failure is None:
            self.failure = error if isinstance(error, OSError) else OSError(errno.EBADF, str(error))
            self._forget_what_waits()
        if not self._is_lossy:
            raise OutputLost from error

    def _forget_what_waits(self) -> None:
        """Discard what is still buffered.

        The interpreter would try to write it at its end, and fail.
        """
        if self.stream in (sys.__stdout__, sys.__stderr__):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.fileno())
                os.close(nowhere)

    def isatty(self) -> bool:
        return self.stream is not None and not self.stream.closed and self.stream.isatty()

    def fileno(self) -> int:
        if self.stream is None:
            raise io.UnsupportedOperation("closed")
        return self.stream.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8" if self.stream is None else self.stream.encoding

    @property
    def buffer(self) -> Any:
        """The stream of bytes below; None when there is none."""
        return getattr(self.stream, "buffer", None)


class UnescapedStream(io.TextIOBase):
    """The same stream for code that escapes by itself, as the console does, or writes data for programs."""

    def __init__(self, output: OutputStream) -> None:
        self._output = output

    def write(self, text: str) -> int:
        self._output.write_unescaped(text)
        return len(text)

    def flush(self) -> None:
        self._output.flush()

    def isatty(self) -> bool:
        return self._output.isatty()

    def fileno(self) -> int:
        return self._output.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._output.encoding


def unescaped(stream: object) -> TextIO:
    """Return a stream that writes to the same place without escaping.

    A stream that is no OutputStream is returned as it is.
    """
    return cast(TextIO, UnescapedStream(stream) if isinstance(stream, OutputStream) else stream)


@contextmanager
def escaped_output() -> Iterator[OutputStream]:
    """Replace `sys.stdout`, which is yielded, and `sys.stderr` with OutputStreams until the block ends."""
    before = sys.stdout, sys.stderr
    output, errors = OutputStream(sys.stdout), OutputStream(sys.stderr, is_lossy=True)
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, errors)
    try:
        yield output
    finally:
        errors.flush()
        sys.stdout, sys.stderr = before


def open_missing_descriptors() -> None:
    """Open the null device, for reading only, for standard descriptors that are closed, as after `>&-`.

    A file or socket of this process would get the number otherwise, and what a library prints would go into it.
    Writing still fails, here and in children, so that their lost lines are counted.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            found = os.open(os.devnull, os.O_RDONLY)  # the lowest that is free: this one
            os.set_inheritable(found, True)
