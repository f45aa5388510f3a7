"""Sources of the credentials of a session."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ordo.runtime.errors import ConfigurationError


def credentials_from_file(path: str | Path) -> Callable[[], bytes]:
    """Return a source that reads credentials from a file, without the final line end.

    It is read whenever a session is opened, so that they can be exchanged while the client runs. Raises
    ConfigurationError if the file cannot be read.
    """

    def read() -> bytes:
        try:
            return Path(path).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise ConfigurationError(f"credentials: {path} cannot be read: {error.strerror}") from error

    return read


def credentials_from_environment(name: str) -> Callable[[], bytes]:
    """Return a source that reads credentials from an environment variable.

    It raises ConfigurationError if the variable is missing.
    """

    def read() -> bytes:
        value = os.environ.get(name)
        if value is None:
            raise ConfigurationError(f"credentials: the environment has no {name}")
        return os.fsencode(value)

    return read
