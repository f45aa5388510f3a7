"""Complete files that must survive a power cut: keys, tokens, settings, and the progress of jobs.

A file is synced before it has its name, and the folder after that, since a name is content of its folder.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

NEW_SUFFIX = ".new"


def write_durably(path: str | Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a complete file: after a crash either the old or the new one exists; after the return, the new one.

    Where it fails, the old one stays. `mode`: the rights of the file, less those that the process's mask takes away.
    Raises OSError.
    """
    beside = f"{os.fspath(path)}{NEW_SUFFIX}"
    try:
        _write(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), content)
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            os.unlink(beside)
        raise
    sync_folder(os.path.dirname(os.path.abspath(path)))


def create_durably(path: str | Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Make a file that must not be there yet, and that a crash after the return does not take away.

    Where it fails, there is none. Raises FileExistsError, OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        _write(descriptor, content)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise
    sync_folder(os.path.dirname(os.path.abspath(path)))


def make_folder_durably(path: str | Path) -> None:
    """Make a folder and those above it, as far as they are missing. Raises OSError."""
    folder = Path(os.path.abspath(path))
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def sync_folder(folder: str | Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no sync of folders: there is nothing more to do
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, content: str | bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())


def why_not_writable(path: str | Path) -> str:
    """Return why a file cannot be written, empty if it can: better known before a long run than after it.

    One that is not there is made, and is empty.
    """
    try:
        with open(path, "a"):
            return ""
    except OSError as error:
        return str(error.strerror)
