"""The house as it is laid out: rooms of a human size, each with its place, all reached by the one name `ordo`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.rooms import MODULES_MAX, ROOMS
from tools.source import FACE, PACKAGES, ROOT, Problem, files


def modules() -> dict[str, set[str]]:
    """Return the modules of each folder: the files of one name count once, `__init__` not at all."""
    found: dict[str, set[str]] = {}
    for path in files(".py", ".pyx", ".pxd", ".pyi", packages=PACKAGES):
        if path.stem != "__init__":
            found.setdefault(path.parent.relative_to(ROOT).as_posix(), set()).add(path.stem)
    return found


def _rooms() -> Iterator[Problem]:
    held = modules()
    for room, names in sorted(held.items()):
        if room not in ROOMS:
            yield Problem(ROOT / room, 1, f"{room}/ has no place in tools/rooms.py")
        if len(names) > MODULES_MAX:
            yield Problem(ROOT / room, 1, f"{room}/ has {len(names)} modules, at most {MODULES_MAX}: make rooms of it")
    for room in ROOMS:
        if room not in held:
            yield Problem(ROOT / room, 1, f"{room}/ of tools/rooms.py holds no module")


def _links() -> Iterator[Problem]:
    face = ROOT / FACE
    for package in PACKAGES:
        link = face / package
        if package != FACE and (not link.is_symlink() or link.readlink() != Path("..") / package):
            yield Problem(link, 1, f"is no link to ../{package}, so that it cannot be imported as {FACE}.{package}")


def _guards() -> Iterator[Problem]:
    for package in PACKAGES:
        path = ROOT / package / "__init__.py"
        if package != FACE and f'if __name__ != "{FACE}.{package}":' not in path.read_text():
            yield Problem(path, 1, f"does not refuse to be imported as anything but {FACE}.{package}")


def check() -> list[Problem]:
    return [*_rooms(), *_links(), *_guards()]
