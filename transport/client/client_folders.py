"""Folders of embedded drivers: one for each client; those of killed clients are removed.

They lie in a folder of the user's own in shared memory, `ordo-UID`, to which nobody else can write. Another user may
hold that name, as everybody may write to /dev/shm; then another name is taken. /run/user/UID would be out of reach of
other users, but the system empties it when its user logs out, and a program may outlive that.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress

from ordo.runtime.agents.use import watch
from ordo.runtime.errors import StorageError
from ordo.runtime.native.file_access import folder_mode

PREFIX = "ordo-client-"
LOCK_SUFFIX = ".lock"
ATTEMPTS_MAX = 100
NAMES_MAX = 8
_numbers = itertools.count()


def shared_memory_folder() -> str:
    """Return the folder in which drivers keep their files: in shared memory, where the machine has some."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else os.environ.get("TMPDIR", "/tmp")


def user_folder(parent: str) -> str:
    """Return the folder below `parent` that is this user's alone, made if need be. Raises StorageError."""
    name = os.path.join(parent, f"ordo-{os.geteuid()}")
    for path in (name, *(f"{name}-{number}" for number in range(1, NAMES_MAX))):
        with suppress(FileExistsError):
            try:
                os.mkdir(path, folder_mode() & ~0o022)
            except FileExistsError:
                raise
            except OSError as error:
                raise StorageError(f"cannot make folder: path={path}: {error.strerror}") from error
        if _is_own(path):
            return path
    try:
        return tempfile.mkdtemp(prefix=f"{os.path.basename(name)}-", dir=parent)
    except OSError as error:
        raise StorageError(f"cannot make a folder in {parent}: {error.strerror}") from error


def _is_own(path: str) -> bool:
    """Return whether the path is a folder of this user that no other user can write to, and not a symbolic link."""
    with suppress(OSError):
        found = os.lstat(path)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return False


class ClientFolder:
    """The name of a folder that no other process uses, as long as this object is not closed.

    A lock beside it says that its owner lives; the system frees the lock of a process that was killed.
    """

    def __init__(self, parent: str | None = None) -> None:
        """Make a locked folder below `parent`, by default the user's own folder in shared memory.

        Raises StorageError.
        """
        parent = parent or user_folder(shared_memory_folder())
        remove_abandoned(parent)
        self.path, self._descriptor = _take_name(parent)
        watch(self)

    def on_forked(self) -> None:
        """Close the inherited lock in a forked child: the folder is the parent's, and the lock must not outlive it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def close(self) -> None:
        """Remove the folder and the lock. Idempotent."""
        if self._descriptor >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.unlink(self.path + LOCK_SUFFIX)
            os.close(self._descriptor)
            self._descriptor = -1


def _take_name(parent: str) -> tuple[str, int]:
    """Return a folder's name and the descriptor of its locked file.

    Tries other names while somebody holds them; never waits.

    In another container that shares this memory a process may have the same id.
    """
    why = ""
    for _ in range(ATTEMPTS_MAX):
        path = os.path.join(parent, f"{PREFIX}{os.getpid()}-{next(_numbers)}")
        try:
            descriptor = _lock(path + LOCK_SUFFIX)
        except OSError as error:
            why = f"{path}{LOCK_SUFFIX}: {error.strerror}"
            continue
        if not os.path.lexists(path) or _is_own(path):
            return path, descriptor
        why = f"{path} is not ours"
        os.close(descriptor)
    raise StorageError(f"no name for a folder is free in {parent}: {why}")


def _lock(path: str) -> int:
    """Return the descriptor of a file of this user that no other process has locked. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise FileNotFoundError(2, "somebody who cleared away took it for abandoned")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def remove_abandoned(parent: str) -> list[str]:
    """Remove the folders whose owner was killed; return their names."""
    removed = []
    for lock_path in _locks(parent):
        with suppress(OSError):
            descriptor = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
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
