"""The code that decides what a seed does: what ships and runs in a simulation, and the simulation itself.

Modules that were compiled count as they are, beside their sources: a build may be older than these.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    *("applications", "archive", "cluster", "consensus", "consumers", "follow", "runtime", "sequencer", "service_api"),
    *("transport", "ordo/backup", "ordo/salvage", "tests/simulation", "tests/linearizability"),
)
FILES = ("setup.py", "tests/faults/logs.py")
SUFFIXES = (".py", ".pyx", ".pxd", ".h", EXTENSION_SUFFIXES[0])
LEFT_OUT = ("test_", "planted")
DIGEST_LENGTH = 16


class SimulatedCode:
    """The state of a checkout's code when this was made; docs, tests and planted bugs are no part of it."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._stamps = self._stamp()
        self.digest = self._digest()

    @property
    def paths(self) -> list[Path]:
        """Every file that counts, in the same order on each machine."""
        return list(self._stamps)

    def is_changed(self) -> bool:
        """Whether the code is another one by now. Contents are read only where a file has been written to."""
        now = SimulatedCode(self._root) if self._stamp() != self._stamps else self
        if now.digest == self.digest:
            self._stamps = now._stamps
        return now.digest != self.digest

    def _find(self) -> Iterator[Path]:
        for folder in FOLDERS:
            for path in sorted((self._root / folder).rglob("*")):
                if path.name.endswith(SUFFIXES) and not path.name.startswith(LEFT_OUT):
                    yield path
        yield from (self._root / name for name in FILES)

    def _stamp(self) -> dict[Path, tuple[int, int]]:
        """When each file was written, and its size. One that is gone counts as empty."""
        stats = {path: path.stat() if path.exists() else None for path in self._find()}
        return {path: (stat.st_mtime_ns, stat.st_size) if stat else (0, 0) for path, stat in stats.items()}

    def _digest(self) -> str:
        """Python is part of it: another one may iterate, round or collect in another way."""
        hashed = hashlib.sha256(f"{platform.python_implementation()} {platform.python_version()}".encode())
        for path in self._stamps:
            content = path.read_bytes() if path.exists() else b""
            hashed.update(f"\n{path.relative_to(self._root)} {len(content)}\n".encode())
            hashed.update(content)
        return hashed.hexdigest()[:DIGEST_LENGTH]
