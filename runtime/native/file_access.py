"""Permissions of the files that this process makes: in shared memory, archive and node folders.

A log buffer or a segment file holds every message in the clear, so by default only the user who runs the process has
access. What this process starts has the same, by the environment.
"""

from __future__ import annotations

import os
import pwd
import stat
from typing import Final

from ordo.runtime.errors import ConfigurationError

VARIABLE: Final = "ORDO_FILE_ACCESS"
_MODES: Final = {"owner": 0o600, "group": 0o660, "all": 0o666}
ACCESSES: Final = tuple(_MODES)


def choose_file_access(access: str) -> None:
    """Choose who may use the files of this process and of those it starts: "owner", "group", "all".

    The umask still applies.
    """
    if access not in _MODES:
        raise ConfigurationError(f"file_access={access!r}, must be one of {', '.join(ACCESSES)}")
    os.environ[VARIABLE] = access


def file_mode() -> int:
    """Return the permission bits of a new file.

    Raises ConfigurationError if the environment names an unknown access.
    """
    access = os.environ.get(VARIABLE, "owner")
    if access not in _MODES:
        raise ConfigurationError(f"{VARIABLE}={access!r} in the environment, must be one of {', '.join(ACCESSES)}")
    return _MODES[access]


def folder_mode() -> int:
    """Return the permission bits of a new folder: users who may read files in it may list it, too."""
    mode = file_mode()
    return mode | (mode & 0o444) >> 2


def whose(path: str) -> str:
    """Return the owner of a file or folder, to end an error's line; empty if it is this user."""
    try:
        found = os.lstat(path)
    except (PermissionError, NotADirectoryError):
        return whose(os.path.dirname(path))  # the folder it is in is the one that is not ours
    except OSError:
        return ""
    if found.st_uid == os.geteuid():
        return "; it is a symbolic link: remove it" if stat.S_ISLNK(found.st_mode) else ""
    owner, own = _user(found.st_uid), _user(os.geteuid())
    return f"; {path} belongs to {owner}, not to {own}: have it removed, or choose another name"


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user of id {uid}"


def make_folders(directory: str) -> list[str]:
    """Make a folder and those above it that are missing, all of them with this access; return these, outer first."""
    if os.path.isdir(directory):
        return []
    parent = os.path.dirname(directory)
    made = make_folders(parent) if parent else []
    try:
        os.mkdir(directory, folder_mode())
    except FileExistsError:
        if not os.path.isdir(directory):
            raise
        return made  # somebody else made it meanwhile
    return [*made, directory]
