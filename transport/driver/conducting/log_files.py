"""Makes the files of streams, and gives their memory and files back, on a thread of its own.

The kernel takes milliseconds to allocate the pages of three terms, or to free them, and a client that starts or ends
may have hundreds of streams. The duty cycle says which files it wants and which it is done with, takes those that were
made, and waits for none. No lock is shared with it: what it hands over, and what it gets, are queues.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from ordo.runtime.agents.at_exit import end_at_exit
from ordo.runtime.errors import StorageFullError
from ordo.runtime.native.memory import Memory, MemoryProvider

ERRORS_MAX = 1024
"""Errors of the thread that wait for the driver to record them."""


@dataclass(eq=False)
class FileRequest:
    """A file that a log is to be begun in, with the parts (offset, length in bytes) whose pages it touches soon.

    `is_done` is written last: then there is either `memory` or an `error`.
    """

    path: str
    length_bytes: int
    sparse: bool
    touched: tuple[tuple[int, int], ...]
    memory: Memory | None = None
    error: Exception | None = None
    is_done: bool = False


class LogFiles:
    """The files of one driver's logs. Without a thread, as in simulations, each is made and freed at once.

    `on_made` is called after each that was made or could not be, on the thread.

    Files to be freed are not bounded in number, and need not be: the thread frees one for each that it makes, so that
    there are never more of them than there were streams at a time.
    """

    def __init__(
        self, memory: MemoryProvider, *, is_threaded: bool, on_made: Callable[[], object] = lambda: None
    ) -> None:
        self._memory = memory
        self._is_threaded = is_threaded
        self._on_made = on_made
        self._asked: deque[FileRequest] = deque()
        self._ended: deque[Memory] = deque()
        self._failed: deque[Exception] = deque(maxlen=ERRORS_MAX)
        self._jobs: SimpleQueue[threading.Event | None] = SimpleQueue()
        """None for each that was asked for or ended, an event to be set when all before it is done."""
        self._thread: threading.Thread | None = None
        self._cores = os.sched_getaffinity(0)
        self._is_closed = False

    # --- the driver's side ----------------------------------------------------------------------------------------

    def make(self, request: FileRequest) -> None:
        """Have a file made, soon; those that are asked for are made in order."""
        if not self._has_thread():
            self._make(request)
            return
        self._asked.append(request)
        self._jobs.put(None)
        self._finish_late()

    def discard(self, log: Memory) -> None:
        """Free a log's memory and its file, soon. Raises only where this is done at once."""
        if not self._has_thread():
            self._free(log)
            return
        self._ended.append(log)
        self._jobs.put(None)
        self._finish_late()

    def _has_thread(self) -> bool:
        """Return whether there is a thread, begun if need be: the system may have none left, and be asked again."""
        if not self._is_threaded or self._is_closed:
            return False
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="log files", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
            self._forget_exit = end_at_exit(self.close)
        return True

    def _finish_late(self) -> None:
        """Do what was handed over while another thread, that of the interpreter's end, ended the one that does it."""
        if self._is_closed:
            self._work_off()

    def take_errors(self) -> list[Exception]:
        """Return what went wrong on the thread since the last call, but for what was asked for."""
        return [self._failed.popleft() for _ in range(len(self._failed))]

    def flush(self) -> None:
        """Wait until everything is made and freed."""
        if self._thread is not None and self._thread.is_alive():
            done = threading.Event()
            self._jobs.put(done)
            done.wait()

    def close(self) -> None:
        """Free what is left, and end the thread. Files that were asked for by then are made, and left to the caller.

        What comes later, from a driver that works until the interpreter has ended it too, is done at once.
        """
        if self._thread is None or self._is_closed:
            return
        self.flush()
        self._is_closed = True
        self._jobs.put(None)
        self._thread.join()
        self._work_off()
        self._forget_exit()

    # --- the thread's side ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(OSError):  # where a container's rules forbid it
            os.sched_setaffinity(0, self._cores)  # and not the one core of the thread that first asked
        while True:
            done = self._jobs.get()
            if self._is_closed:
                return
            if done is not None:
                self._work_off()
                done.set()
            else:
                self._work()

    def _work_off(self) -> None:
        while self._asked or self._ended:
            self._work()

    def _work(self) -> None:
        """Make a file, if one is wanted, and free one, if one is not."""
        with suppress(IndexError):  # none
            self._make(self._asked.popleft())
            self._tell_made()
        self._free_next()

    def _tell_made(self) -> None:
        try:
            self._on_made()
        except Exception as error:  # the driver records it, and finds the file with its next cycle
            self._failed.append(error)

    def _free_next(self) -> bool:
        """Free the log that ended first; return whether there was one."""
        try:
            self._free(self._ended.popleft())
        except IndexError:
            return False
        except Exception as error:  # the driver records it; what follows is freed all the same
            self._failed.append(error)
        return True

    def _make(self, request: FileRequest) -> None:
        """Make a file. Where there is no room, those that wait to be freed make some."""
        try:
            while True:
                try:
                    request.memory = self._create(request)
                    break
                except StorageFullError:
                    if not self._free_next():
                        raise
        except Exception as error:  # told to the client that asked
            request.error = error
        request.is_done = True

    def _create(self, request: FileRequest) -> Memory:
        made = self._memory.create(request.path, request.length_bytes, request.sparse)
        try:
            for offset, length_bytes in request.touched:
                made.reserve_range(offset, length_bytes)
        except BaseException:
            self._free(made)
            raise
        return made

    def _free(self, log: Memory) -> None:
        path = log.path
        log.close()
        self._memory.remove(path)
