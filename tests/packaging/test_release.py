"""What `make release` makes, by a dry run with this Python."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from ordo.runtime.version import VERSION
from tests.packaging.conftest import ROOT, run

pytestmark = pytest.mark.wheel
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def bill(release: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((release / f"ordo_sequencer-{VERSION}.cdx.json").read_text())
    return found


def test_its_files_have_this_version_and_their_hashes(release: Path) -> None:
    assert sorted(path.suffix for path in release.iterdir()) == ["", ".gz", ".json", ".whl"]
    assert all(VERSION in path.name for path in release.iterdir() if path.suffix)
    assert run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=release).count(": OK\n") == 3


def test_its_bill_names_what_the_wheel_needs_and_what_that_needs(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    by_name = {one["name"]: one for one in bill["components"]}
    required = {requirement.partition(">=")[0] for requirement in PROJECT["dependencies"]}
    for name in required | {"pydantic-core"}:
        assert (by_name[name]["scope"], by_name[name]["version"]) == ("required", version(name))
    assert {by_name[name]["scope"] for name in ("grpcio", "pyspark", "duckdb")} == {"optional"}
    assert "pytest" not in by_name and "mypy" not in by_name


def test_its_bill_says_what_needs_what(bill: dict[str, Any]) -> None:
    known = {one["bom-ref"] for one in bill["components"]}
    edges = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    itself = bill["metadata"]["component"]["bom-ref"]
    assert set(edges) <= known | {itself}
    assert all(set(needed) <= known for needed in edges.values())
    assert f"pkg:pypi/pydantic-core@{version('pydantic-core')}" in edges[f"pkg:pypi/pydantic@{version('pydantic')}"]
