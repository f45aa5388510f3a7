"""File systems of their own for a member's data and for its log, which can fill up and stand still."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from tests.faults.networks import run
from tests.patience import patient

SIZE_BYTES = 320 * 1024 * 1024  # twice what an archive wants free before it begins a recording
LEFT_BYTES = 256 * 1024
LOG_SIZE_BYTES = 64 * 1024 * 1024
PAGE_BYTES = 4096
UNMOUNT_TIMEOUT_S = 10.0


class Disk:
    """ext4 in the sparse file `image`, mounted at `folder`; both are made."""

    can_freeze = True

    def __init__(self, folder: Path, image: Path, size_bytes: int = SIZE_BYTES) -> None:
        self.folder = folder
        self._image = image
        self._filler = folder / "filler"
        self._is_frozen = False
        folder.mkdir(parents=True)
        self._mount(size_bytes)

    def _mount(self, size_bytes: int) -> None:
        with self._image.open("wb") as file:
            file.truncate(size_bytes)
        run(["mkfs.ext4", "-q", "-m", "0", "-E", "nodiscard", str(self._image)])
        run(["mount", "-o", "loop", str(self._image), str(self.folder)])

    def fill(self, left_bytes: int = LEFT_BYTES) -> None:
        """Nothing is left but these bytes."""
        with self._filler.open("ab") as file:
            if (length := shutil.disk_usage(self.folder).free - left_bytes) > 0:
                os.posix_fallocate(file.fileno(), file.tell(), length)

    def fill_to_the_last(self) -> None:
        """Nothing is left at all."""
        self.fill()
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(PAGE_BYTES))

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)

    def freeze(self) -> None:
        """Whoever writes or syncs waits until `thaw`, and cannot even be killed meanwhile."""
        run(["fsfreeze", "--freeze", str(self.folder)])
        self._is_frozen = True

    def thaw(self) -> None:
        if self._is_frozen:
            run(["fsfreeze", "--unfreeze", str(self.folder)])
            self._is_frozen = False

    def close(self) -> None:
        """Unmounts, once the processes on it are gone."""
        self.thaw()
        deadline_s = time.monotonic() + patient(UNMOUNT_TIMEOUT_S)
        while time.monotonic() < deadline_s:
            try:
                run(["umount", str(self.folder)])
                break
            except AssertionError:
                time.sleep(0.05)
        else:
            run(["umount", "-l", str(self.folder)])
        self._image.unlink(missing_ok=True)


class MemoryDisk(Disk):
    """A tmpfs: it has no room for a page that a mapped file has not had yet, and cannot be frozen."""

    can_freeze = False

    def _mount(self, size_bytes: int) -> None:
        run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(self.folder)])
