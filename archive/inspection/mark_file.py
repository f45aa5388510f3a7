"""The mark file of an archive that runs, for Aeron's tools: who it is, that it is alive, its errors (archive.md B6)."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from ordo.archive.inspection.export import (
    ACTIVITY_OFFSET,
    ACTIVITY_TIMEOUT_MS,
    ERROR_BUFFER_LENGTH,
    FILE_VERSION,
    INACTIVE,
    MARK_FILE_NAME,
    MARK_HEADER,
    MARK_HEADER_LENGTH,
    replace_file,
)
from ordo.runtime.errors import OrdoError, StorageInUseError
from ordo.runtime.native.clock import Clock
from ordo.runtime.native.error_log import DistinctErrorLog
from ordo.runtime.native.memory import FileMemoryProvider

PID_OFFSET = 32
ACTIVITY_INTERVAL_MS = 1_000


class MarkFile:
    """`archive-mark.dat` in the folder of a running archive; `work` shows that it lives, `close` that it has ended.

    Raises StorageInUseError when the mark file is that of another process that lives, StorageError.
    """

    def __init__(
        self,
        directory: str,
        clock: Clock,
        *,
        archive_id: int,
        control: tuple[str, int],
        local_control: tuple[str, int],
        events: tuple[str, int],
        aeron_dir: str,
    ) -> None:
        self._clock = clock
        path = Path(directory) / MARK_FILE_NAME
        now_ms = clock.epoch_ms()
        pid = owner_of(path, now_ms)
        if pid is not None and pid != os.getpid():
            raise StorageInUseError(f"{path} is that of the process {pid}, which lives: stop it, or use another folder")
        header = MARK_HEADER.encode(
            version=FILE_VERSION,
            activity_timestamp=now_ms,
            start_timestamp=now_ms,
            pid=os.getpid(),
            control_stream_id=control[1],
            local_control_stream_id=local_control[1],
            events_stream_id=events[1],
            header_length=MARK_HEADER_LENGTH,
            error_buffer_length=ERROR_BUFFER_LENGTH,
            archive_id=archive_id,
            control_channel=control[0],
            local_control_channel=local_control[0],
            events_channel=events[0],
            aeron_directory=aeron_dir,
        )
        replace_file(path, header.ljust(MARK_HEADER_LENGTH + ERROR_BUFFER_LENGTH, b"\0"))
        self._memory = FileMemoryProvider().open(str(path))
        self._errors = DistinctErrorLog(self._memory.slice(MARK_HEADER_LENGTH, ERROR_BUFFER_LENGTH), clock)
        self._due_ms = now_ms + ACTIVITY_INTERVAL_MS

    def on_error(self, error: Exception) -> None:
        """Record an error, counted where it was recorded before, with its category as Aeron's archive writes it."""
        if isinstance(error, OrdoError):
            kind = type(error)
            self._errors.record(f"{kind.__module__}.{kind.__qualname__}: {error.category.name} - {error.message}")
        else:
            self._errors.record(error)

    def work(self) -> None:
        """Show that the archive lives, when it is time again."""
        now_ms = self._clock.epoch_ms()
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + ACTIVITY_INTERVAL_MS
            self._show(now_ms)

    def _show(self, activity_ms: int) -> None:
        with memoryview(self._memory) as view:
            struct.pack_into("<q", view, ACTIVITY_OFFSET, activity_ms)

    def close(self) -> None:
        """Show that the archive has ended."""
        self._show(INACTIVE)


def owner_of(path: Path, now_ms: int) -> int | None:
    """Return the process that a mark file is of; None when there is none, when it has ended, or in a copied folder."""
    try:
        with path.open("rb") as file:
            head = file.read(PID_OFFSET + 8)
    except FileNotFoundError:
        return None
    if len(head) < PID_OFFSET + 8:
        return None
    (activity_ms,) = struct.unpack_from("<q", head, ACTIVITY_OFFSET)
    (pid,) = struct.unpack_from("<q", head, PID_OFFSET)
    if activity_ms == INACTIVE or now_ms - activity_ms >= ACTIVITY_TIMEOUT_MS or not 0 < pid < 1 << 31:
        return None
    return int(pid) if _maps(int(pid), path) else None


def _maps(pid: int, path: Path) -> bool:
    """Return whether a process lives and has a file mapped, as far as can be seen."""
    try:
        mapped = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        found = path.stat()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True  # of another user
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    name = os.path.realpath(path)
    rows = (line.split(maxsplit=5) for line in mapped)
    return any(row[3:5] == [device, str(found.st_ino)] or row[5:] == [name] for row in rows)
