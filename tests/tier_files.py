"""Which files have no test of a tier, as runs before have found: a run of one tier does not import them.

Importing all tests takes a worker ten seconds of a processor, half of them for tests that the marks then leave out.
What was found counts only as long as no file is changed that tiers are read from.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.tiers import ALLOWANCES, FOLLOWED, ROOT, TIERS

PLACE = ROOT / "build" / "tier-files.json"


def state_of(root: Path) -> str:
    """Return a digest of names, times and sizes of what tiers are read from."""
    digest = hashlib.sha256()
    files = (path for folder in FOLLOWED for path in root.joinpath(folder).rglob("*.py"))
    for path in sorted((*files, root / ALLOWANCES.relative_to(ROOT), root / "pyproject.toml")):
        with suppress(FileNotFoundError):
            found = path.stat()
            digest.update(f"{path.relative_to(root)} {found.st_mtime_ns} {found.st_size}\n".encode())
    return digest.hexdigest()


class TierFiles:
    """The tiers that the tests of each file have, kept in a file of `build/`."""

    def __init__(self, place: Path = PLACE, root: Path = ROOT) -> None:
        self._place = place
        self._root = root
        self._state = state_of(root)
        self._tiers = self._read()

    def _read(self) -> dict[str, list[str]]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads(self._place.read_text())
            if kept["state"] == self._state:
                return dict(kept["tiers"])
        return {}

    def lacks(self, path: Path, expression: str) -> bool:
        """Return whether a file is known to have no test that the expression of `-m` chooses, if that is a tier."""
        if expression not in TIERS or not path.is_relative_to(self._root):
            return False
        found = self._tiers.get(path.relative_to(self._root).as_posix())
        return found is not None and expression not in found

    def note(self, tiers: Iterable[tuple[Path, str]]) -> None:
        """Keep the tiers of all tests of whole files; processes that do so at a time disturb each other in nothing."""
        found: dict[str, set[str]] = {}
        for path, tier in tiers:
            if path.is_relative_to(self._root):
                found.setdefault(path.relative_to(self._root).as_posix(), set()).add(tier)
        kept = self._read() | {name: sorted(those) for name, those in found.items()}
        if kept != self._tiers and self._place.parent.is_dir() and state_of(self._root) == self._state:
            partial = self._place.with_name(f"{self._place.name}.{os.getpid()}")
            partial.write_text(json.dumps({"state": self._state, "tiers": kept}))
            partial.replace(self._place)


def are_whole(arguments: Sequence[str], options: Mapping[str, object]) -> bool:
    """Return whether a run collects all tests of each file that it collects."""
    return not any("::" in one for one in arguments) and not any(options.get(name) for name in ("lf", "deselect"))


def are_named(path: Path, arguments: Sequence[str], folder: Path) -> bool:
    """Return whether the arguments of a run name a file itself, which pytest then must find."""
    return any(path == folder / one.partition("::")[0] for one in arguments)
