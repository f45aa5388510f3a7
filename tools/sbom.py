"""The bill of materials of a wheel, as CycloneDX has it: what it needs, in the versions it was built and tested with.

Versions and licenses are those of the packages installed where this runs. What an extra alone needs is optional, and
has no version if it is not installed.
"""

from __future__ import annotations

import uuid
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SPEC_VERSION = "1.5"
DEVELOPERS_EXTRAS = frozenset({"dev", "s3-tests"})
"""What nobody installs to use Ordo."""


class SbomError(Exception):
    """A package that the wheel needs is not installed."""


class Materials:
    """What a wheel needs, and what that needs: by name, with versions, licenses and edges."""

    def __init__(self, name: str, version: str, requirements: list[str], extras: list[str]) -> None:
        self._components: dict[str, dict[str, Any]] = {}
        self._edges: dict[str, set[str]] = {}
        self._seen: set[tuple[str, str]] = set()
        self.root = purl(name, version)
        self._edges[self.root] = set()
        for scope, chosen in (
            ("required", [""]),
            ("optional", [one for one in extras if one not in DEVELOPERS_EXTRAS]),
        ):
            for extra in chosen:
                for needed in needs(requirements, extra):
                    self._edges[self.root].add(self._add(needed, scope))

    def _add(self, needed: Requirement, scope: str) -> str:
        name = canonicalize_name(needed.name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if scope == "required":
                raise SbomError(f"{name} is not installed, and its version has to be named: `make build`") from None
            self._components.setdefault(name, component(name, "", "", scope))
            return str(self._components[name]["bom-ref"])
        place = purl(name, found.version)
        self._components.setdefault(name, component(name, found.version, license_of(found.metadata), scope))
        edges = self._edges.setdefault(place, set())
        for extra in {"", *needed.extras} - {extra for other, extra in self._seen if other == name}:
            self._seen.add((name, extra))
            edges.update(self._add(one, scope) for one in needs(found.requires or [], extra))
        return place

    def components(self) -> list[dict[str, Any]]:
        """Return every package once, by name."""
        return [self._components[name] for name in sorted(self._components)]

    def dependencies(self) -> list[dict[str, Any]]:
        """Return which package needs which."""
        return [{"ref": one, "dependsOn": sorted(self._edges[one])} for one in sorted(self._edges)]


def purl(name: str, version: str) -> str:
    """Return the address of a package, as bills of materials have it."""
    return f"pkg:pypi/{name}" + (f"@{version}" if version else "")


def needs(requirements: list[str], extra: str) -> Iterator[Requirement]:
    """Yield what is needed here without any extra (""), or for this one alone."""
    for text in requirements:
        one = Requirement(text)
        always = one.marker is None or one.marker.evaluate({"extra": ""})
        if always if not extra else not always and one.marker is not None and one.marker.evaluate({"extra": extra}):
            yield one


def license_of(metadata: Any) -> str:
    """Return what a package says of its license in a word or two; "" if it says nothing or gives the whole text."""
    said = metadata.get("License-Expression") or metadata.get("License") or ""
    return said if "\n" not in said and len(said) < 100 else ""


def component(name: str, version: str, license_name: str, scope: str) -> dict[str, Any]:
    """Return one package as the format has it."""
    made: dict[str, Any] = {"type": "library", "bom-ref": purl(name, version), "name": name, "scope": scope}
    made |= {"version": version} if version else {}
    made["purl"] = purl(name, version)
    return made | ({"licenses": [{"license": {"name": license_name}}]} if license_name else {})


def bill_of_materials(wheel: Path, timestamp: str) -> dict[str, Any]:
    """Return the document of a wheel; the same wheel and time give the same document."""
    with zipfile.ZipFile(wheel) as archive:
        (place,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(place).decode())
    name, version = str(metadata["Name"]), str(metadata["Version"])
    materials = Materials(
        name, version, metadata.get_all("Requires-Dist") or [], metadata.get_all("Provides-Extra") or []
    )
    itself = {"type": "library", "bom-ref": materials.root, "name": name, "version": version, "purl": materials.root}
    itself["licenses"] = [{"license": {"id": str(metadata["License-Expression"])}}]  # type: ignore[assignment]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{materials.root} {timestamp}')}",
        "version": 1,
        "metadata": {"timestamp": timestamp, "component": itself},
        "components": materials.components(),
        "dependencies": materials.dependencies(),
    }
