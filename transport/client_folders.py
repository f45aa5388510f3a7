"""Folders of embedded drivers: one for each client, and those of clients that were killed are cleared away."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

from runtime.errors import StorageError

PREFIX = "ordo-client-"
LOCK_SUFFIX = ".lock"
ATTEMPTS_MAX = 100
_numbers = itertools.count()


def shared_memory_folder() -> str:
    """Returns the folder in which drivers keep their files: in shared memory, where the machine has some."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else os.environ.get("TMPDIR", "/tmp")


class ClientFolder:
    """The name of a folder that no other process uses, as long as this object is not closed.

    A lock beside it says that its owner lives; the system frees the lock of a process that was killed.
    """

    def __init__(self, parent: str | None = None) -> None:
        parent = parent or shared_memory_folder()
        remove_abandoned(parent)
        self.path = os.path.join(parent, f"{PREFIX}{os.getpid()}-{next(_numbers)}")
        self._descriptor = _lock(self.path + LOCK_SUFFIX)

    def close(self) -> None:
        """Removes the folder and the lock. Idempotent."""
        if self._descriptor >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.unlink(self.path + LOCK_SUFFIX)
            os.close(self._descriptor)
            self._descriptor = -1


def _lock(path: str) -> int:
    """The descriptor of a new locked file. Tries again when somebody who clears away took it for abandoned."""
    for _ in range(ATTEMPTS_MAX):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise StorageError(f"cannot lock {path}: {error.strerror}") from error
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)
    raise StorageError(f"cannot lock {path}: it is removed again and again")


def remove_abandoned(parent: str) -> list[str]:
    """Removes the folders whose owner was killed; their names."""
    removed = []
    for lock_path in _locks(parent):
        with suppress(OSError):
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(descriptor), os.stat(lock_path)):
                    shutil.rmtree(lock_path.removesuffix(LOCK_SUFFIX), ignore_errors=True)
                    os.unlink(lock_path)
                    removed.append(lock_path.removesuffix(LOCK_SUFFIX))
            finally:
                os.close(descriptor)
    return removed


def _locks(parent: str) -> Iterator[str]:
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.name.endswith(LOCK_SUFFIX):
                yield entry.path
