"""What stops a release, and what a bill of materials says of packages; the files are made in tests/packaging."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import release
from tools.pythons import PythonError
from tools.sbom import Materials, SbomError

CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.0] - 2026-01-02

### Clients

- A client asks.

## [1.1.0] - 2025-01-02

- A client is there.
"""


def git(folder: Path, *words: str) -> None:
    named = [
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@example.org",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "tag.gpgsign=false",
    ]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that can release 1.2.0."""
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "version.py").write_text('VERSION = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def test_nothing_stops_a_release_that_is_prepared(checkout: Path) -> None:
    assert list(release.problems("1.2.0", checkout)) == []


def test_a_version_that_is_none(checkout: Path) -> None:
    assert "1.2 is no version: give three numbers, such as 0.3.0" in release.problems("1.2", checkout)


def test_another_version_than_the_packages(checkout: Path) -> None:
    assert list(release.problems("1.1.0", checkout)) == [
        'runtime/version.py has another version: set it to "1.1.0" and commit that'
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[Unreleased]\n", "[Unreleased]\n\n- More.\n", "CHANGELOG.md has lines below Unreleased"),
        ("- A client asks.", "", "CHANGELOG.md says nothing of 1.2.0"),
        (" - 2026-01-02", "", "CHANGELOG.md says nothing of 1.2.0"),
    ],
)
def test_a_changelog_that_is_not_ready(checkout: Path, old: str, new: str, said: str) -> None:
    (checkout / "CHANGELOG.md").write_text(CHANGELOG.replace(old, new, 1))
    commit(checkout)
    (problem,) = release.problems("1.2.0", checkout)
    assert problem.startswith(said)


def test_files_that_are_not_committed_and_a_tag_that_is_there(checkout: Path) -> None:
    (checkout / "more.py").touch()
    git(checkout, "tag", "v1.2.0")
    changed, tagged = release.problems("1.2.0", checkout)
    assert changed.startswith("1 files are not as committed") and tagged.startswith("the tag v1.2.0 is there")


def test_a_folder_without_git(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    with pytest.raises(PythonError, match=r"git status: .*not a git repository"):
        list(release.problems("1.2.0", checkout))


def test_no_file_is_made_when_something_stops_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main(["0.0.0", "--out", str(tmp_path / "out")]) == 1
    assert "no release: runtime/version.py has another version" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_hashes_are_those_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "a").write_bytes(b"abc")
    release.write_sums(tmp_path)
    assert (tmp_path / "SHA256SUMS").read_text() == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
    )


def test_a_package_that_is_needed_must_be_there() -> None:
    with pytest.raises(SbomError, match="no-such-package is not installed"):
        Materials("x", "1", ["no_such.package>=1"], [])


def test_a_package_of_an_extra_may_be_missing() -> None:
    made = Materials("x", "1", ['no_such.package>=1; extra == "more"', 'other; extra == "dev"'], ["more", "dev"])
    assert made.components() == [
        {
            "type": "library",
            "bom-ref": "pkg:pypi/no-such-package",
            "name": "no-such-package",
            "scope": "optional",
            "purl": "pkg:pypi/no-such-package",
        }
    ]
    assert made.dependencies() == [{"ref": "pkg:pypi/x@1", "dependsOn": ["pkg:pypi/no-such-package"]}]
