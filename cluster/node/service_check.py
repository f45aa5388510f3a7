"""Checks that the code of services can be loaded, before a node starts that leaves them to other processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ordo.runtime.errors import ConfigurationError

LOADED = b"loaded"
REFUSED = b"refused "


def check_services(services: Sequence[Mapping[int, str]], folder: Path | None) -> None:
    """Raise ConfigurationError when the code of a service, `module:Class` by version, cannot be loaded.

    A child loads it, so that this process is without it: what services import may take more memory than the node. A
    child that ends without a word, since the code ended it, leaves the code to do the same here.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reads)
        _load_and_leave(services, folder, writes)
    os.close(writes)
    with open(reads, "rb") as said:
        verdict = said.read()
    os.waitpid(pid, 0)
    if verdict.startswith(REFUSED):
        raise ConfigurationError(verdict.removeprefix(REFUSED).decode())
    if verdict != LOADED:
        _load(services, folder)


def _load(services: Sequence[Mapping[int, str]], folder: Path | None) -> None:
    from ordo.cluster.container.service_loader import load_versions

    for names in services:
        load_versions(names, folder)


def _load_and_leave(services: Sequence[Mapping[int, str]], folder: Path | None, writes: int) -> NoReturn:
    verdict = b""
    try:
        _load(services, folder)
        verdict = LOADED
        sys.stdout.flush()
        sys.stderr.flush()
    except ConfigurationError as error:
        verdict = REFUSED + error.message.encode()
    finally:
        os.write(writes, verdict)
        os._exit(0)
