"""A fork of the service's process that writes its snapshot, while the process itself goes on (copy on write).

The copy shares no memory that it writes to, and uses nothing of the node: no stream, no counter, no file of the
archive. It writes what the snapshot consists of to a pipe, from which the process publishes it:

    +------+----------------+---------+
    | kind | length, 4 bytes| payload |   MESSAGE: one message of the snapshot
    +------+----------------+---------+   END: the digest over all of them; FAILED: why there is no snapshot
"""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ordo.cluster.wire.snapshots.snapshot_digest import MessagesDigest
from ordo.runtime.children import die_with_parent
from ordo.runtime.errors import SnapshotError
from ordo.runtime.garbage import count_frozen_by_others
from ordo.runtime.reporting.failures import one_line, traceback_of

Append = Callable[[bytes], None]
Write = Callable[[Append], None]
"""Gives a snapshot's messages to its argument, one after the other."""

MESSAGE, END, FAILED = range(3)
_FRAME = struct.Struct("<BI")
PIPE_BYTES = 1 << 20
READ_BYTES_MAX = 256 * 1024
"""What the process takes from its copy in one step, which delays its service: about 0.2 ms."""
NICENESS = 10
"""The service and its node come first where there are fewer cores than work."""
OOM_SCORE = 1000
"""Where memory runs out, the kernel ends the copy and not the service."""


class SnapshotCopy(Protocol):
    """A snapshot that a copy of the service is writing."""

    digest: bytes | None
    """Over all messages, once all have been taken."""

    def take(self) -> list[bytes]:
        """Return the messages that have come since the last call.

        Raises SnapshotError when there will be no snapshot.
        """

    def is_gone(self) -> bool:
        """Return whether the copy has ended, so that nothing of it is left."""

    def close(self) -> None:
        """End the copy at once. Idempotent."""


class Copier(Protocol):
    """Makes copies of a service."""

    is_copy: bool
    """True in a copy: nothing that belongs to the node may be touched."""

    def find_obstacle(self) -> str:
        """Return why the process cannot be copied now; '' when it can."""

    def copy(self, write: Write) -> SnapshotCopy:
        """Fork a copy that calls `write` with the present state. Raises SnapshotError if no fork is possible."""


class ProcessCopier:
    """Copies this process by fork."""

    def __init__(self) -> None:
        self.is_copy = False

    def find_obstacle(self) -> str:
        """Return why the process cannot be copied: a copy lacks its other threads, but has the locks that they hold."""
        count = len(os.listdir("/proc/self/task"))
        return f"its process has {count} threads" if count > 1 else ""

    def copy(self, write: Write) -> ProcessCopy:
        parent_pid = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()  # what is buffered would be written twice
        frozen_before = count_frozen_by_others()
        gc.freeze()  # a collection writes to every object, and would copy every page
        read_end, write_end = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(read_end)
            os.close(write_end)
            _unfreeze(frozen_before)
            raise SnapshotError(f"the process cannot be copied for a snapshot: {error.strerror}") from error
        if pid == 0:
            self.is_copy = True
            os.close(read_end)
            _live_as_copy(parent_pid, write_end, write)
        os.close(write_end)
        return ProcessCopy(pid, read_end, frozen_before)


def _unfreeze(frozen_before: int) -> None:
    """Unfreeze objects, unless the service may have frozen some itself, because they cannot be told apart.

    What the container left out of collections at its start is in them again from then on.
    """
    if frozen_before == 0:
        gc.unfreeze()


class ProcessCopy:
    """The process's side of one copy."""

    digest: bytes | None = None

    def __init__(self, pid: int, read_end: int, frozen_before: int) -> None:
        self._pid = pid
        self._read_end = read_end
        self._frozen_before = frozen_before
        self._received = bytearray()
        self._status: int | None = None
        self._is_closed = False
        os.set_blocking(read_end, False)
        with suppress(OSError):  # a limit of the system's; the pipe is smaller then
            fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def take(self) -> list[bytes]:
        try:
            data = os.read(self._read_end, READ_BYTES_MAX)
        except BlockingIOError:
            return []
        if not data and self.digest is None:
            if self.is_gone():
                raise SnapshotError(f"the copy of the service that wrote its snapshot {self._describe_end()}")
            return []
        self._received += data
        return self._take_frames()

    def _take_frames(self) -> list[bytes]:
        messages: list[bytes] = []
        received, offset = self._received, 0
        while len(received) - offset >= _FRAME.size:
            kind, length_bytes = _FRAME.unpack_from(received, offset)
            end = offset + _FRAME.size + length_bytes
            if end > len(received):
                break
            payload = bytes(memoryview(received)[offset + _FRAME.size : end])
            offset = end
            if kind == MESSAGE:
                messages.append(payload)
            elif kind == END:
                self.digest = payload
            else:
                raise SnapshotError(payload.decode("utf-8", "replace"))
        del received[:offset]
        return messages

    def is_gone(self) -> bool:
        if self._status is None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # the service has children of its own, and waits for any
                pid, status = self._pid, 0
            if pid == 0:
                return False
            self._status = os.waitstatus_to_exitcode(status)
        return True

    def _describe_end(self) -> str:
        assert self._status is not None
        return f"was killed by signal {-self._status}" if self._status < 0 else f"ended with status {self._status}"

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        os.close(self._read_end)
        if not self.is_gone():
            os.kill(self._pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        _unfreeze(self._frozen_before)


def _live_as_copy(parent_pid: int, write_end: int, write: Write) -> None:
    """Live as the copy: write, and leave without the cleaning up that is the process's own. Never returns."""
    status = 1
    try:
        # The process decides when its copy ends; a signal to the whole group is not meant for it.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if die_with_parent(parent_pid, signal.SIGKILL):
            _stand_back()
            _write_all(write_end, write)
            status = 0
    except BrokenPipeError:
        pass  # nobody waits for it any more
    finally:
        os._exit(status)


def _stand_back() -> None:
    os.nice(NICENESS)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(OOM_SCORE))


def _write_all(write_end: int, write: Write) -> None:
    digest = MessagesDigest()

    def append(message: bytes) -> None:
        digest.add(message)
        _send(write_end, MESSAGE, message)

    try:
        write(append)
    except BrokenPipeError:
        raise
    except Exception as error:
        _send(write_end, FAILED, f"{one_line(error)}\n{traceback_of(error)}".encode("utf-8", "replace"))
    else:
        _send(write_end, END, digest.digest())
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _send(write_end: int, kind: int, payload: bytes) -> None:
    view = memoryview(_FRAME.pack(kind, len(payload)) + payload)
    while view:
        view = view[os.write(write_end, view) :]
