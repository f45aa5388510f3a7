"""Creates the logs of a driver's streams, and lets go of them.

A log is begun in a file that was made off the duty cycle: `prepare` asks for it, and raises LogPending until it is
there. The conductor tries again then, and `create` takes the file, which is nothing but writing its metadata.
"""

from __future__ import annotations

from typing import Any

from ordo.runtime.errors import StorageFullError, TransportError
from ordo.transport.driver.conducting.log_files import FileRequest, LogFiles
from ordo.transport.driver.frames.system_counters import SystemCounters
from ordo.transport.streams.logbuffer import LogBuffers, begin_log, log_length_bytes

BYTES_MAPPED = 35
PAGE_BYTES = 4096


class LogPending(TransportError):
    """The error while the file of a log is being made.

    The same command works, or fails for good, a moment later.
    """


class LogStore:
    """The logs of one driver, in files of one page size whose pages are allocated before they are used, or are not."""

    def __init__(self, files: LogFiles, system: SystemCounters, page_size: int, reserves: bool) -> None:
        self.files = files
        self._system = system
        self._page_size = page_size
        self._reserves = reserves
        self._requests: dict[str, FileRequest] = {}
        """The files that are being made, or wait to be taken, by path."""
        self._unwanted: list[FileRequest] = []
        """The files that are being made although nobody wants them any more."""

    def prepare(self, path: str, term_length: int, sparse: bool, start_position: int) -> None:
        """Have the file of a log made. Raises LogPending until it is there, or why it cannot be made."""
        request = self._requests.get(path)
        if request is None:
            length_bytes = log_length_bytes(term_length, self._page_size)
            touched = self._touched(length_bytes, term_length, sparse, start_position)
            request = self._requests[path] = FileRequest(path, length_bytes, sparse, touched)
            self.files.make(request)
        if not request.is_done:
            raise LogPending(f"log is being made: path={path}")
        if request.error is not None:
            del self._requests[path]
            raise request.error

    def is_pending(self, path: str) -> bool:
        """Return whether a file is still being made."""
        return path in self._requests and not self._requests[path].is_done

    def _touched(
        self, length_bytes: int, term_length: int, sparse: bool, start_position: int
    ) -> tuple[tuple[int, int], ...]:
        """Return the parts of a file whose pages are allocated with it: all, or its metadata and its first page."""
        if not sparse:
            return ((0, length_bytes),)
        metadata = (length_bytes - PAGE_BYTES, PAGE_BYTES)
        if not self._reserves:
            return (metadata,)
        first = start_position % (3 * term_length) & ~(PAGE_BYTES - 1)
        return (metadata, (first, PAGE_BYTES))

    def create(self, path: str, start_position: int | None = None, **fields: Any) -> LogBuffers:
        """Begin a log in the file that was prepared, and allocate its first pages from a position on.

        Without a position it starts at its tail.
        """
        request = self._requests.pop(path)
        assert request.memory is not None
        try:
            log = begin_log(request.memory, page_size=self._page_size, **fields)
        except BaseException:
            self.files.discard(request.memory)
            raise
        self._system.add(BYTES_MAPPED, log_length_bytes(log.term_length, self._page_size))
        if self._reserves:
            try:
                log.start_reserving(log.tail_position if start_position is None else start_position)
            except StorageFullError:
                self.free(log)
                raise
        return log

    def drop(self, path: str) -> None:
        """Let go of a file that was prepared and not taken, if there is one."""
        request = self._requests.pop(path, None)
        if request is not None:
            self._unwanted.append(request)
            self.collect()

    def collect(self) -> None:
        """Free the files that nobody wants and that are made by now."""
        still_made = []
        for request in self._unwanted:
            if not request.is_done:
                still_made.append(request)
            elif request.memory is not None:
                self.files.discard(request.memory)
        self._unwanted = still_made

    def free(self, log: LogBuffers) -> None:
        """Let go of a log; its memory and file are freed off the duty cycle."""
        self._system.add(BYTES_MAPPED, -log_length_bytes(log.term_length, self._page_size))
        self.files.discard(log.detach())

    def close(self) -> None:
        """End the thread, with all that was asked for by now freed."""
        self.files.flush()
        for path in list(self._requests):
            self.drop(path)
        self.collect()
        self.files.close()
