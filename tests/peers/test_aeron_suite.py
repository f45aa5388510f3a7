"""A suite in JUnit 5, compiled here, is run with Aeron's driver and with Ordo's in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.peers.java_peer import AERON_VERSIONS, compile_java, run_maven
from tests.peers.peer_process import PeerMissingError, cache_folder, go_without, only_one
from tools import aeron_suite

pytestmark = [pytest.mark.slow, pytest.mark.peers, pytest.mark.timeout(240)]
SOURCES = Path(__file__).with_name("suite")
with_the_newest = pytest.mark.parametrize("java_class_path", AERON_VERSIONS[-1:], indirect=True)


BYTE_BUDDY = "net.bytebuddy:byte-buddy:1.15.11"
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m"


def jar_of(artifact: str) -> Path:
    """A jar, through Maven the first time."""
    jar = cache_folder() / f"{'-'.join(artifact.split(':')[1:])}.jar"
    try:
        with only_one():
            if not jar.is_file():
                run_maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={jar.parent}")
    except PeerMissingError as missing:
        go_without(missing)
    return jar


@pytest.fixture(scope="module")
def junit() -> Path:
    return jar_of(aeron_suite.JUNIT)


def compile_suite(folder: Path, *jars: Path) -> None:
    """Makes `classes` and `lib` of a folder with the suite's tests."""
    (folder / "lib").mkdir()
    for jar in jars:
        (folder / "lib" / jar.name).symlink_to(jar)
    compile_java(sorted(SOURCES.glob("*.java")), ":".join(map(str, jars)), folder / "classes")


@with_the_newest
def test_what_passes_with_aeron_is_run_with_ordo(
    java_class_path: tuple[Path, Path], junit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three tests pass with both, one fails with Aeron and does not count, one fails with Ordo and is told."""
    jar, _ = java_class_path
    compile_suite(tmp_path, jar, junit)
    found = tmp_path / "found.json"
    status = aeron_suite.main(
        [str(tmp_path), "--classes", "Driver", "--json", str(found), "--java-options", JAVA_OPTIONS]
    )
    table = capsys.readouterr().out
    assert status == 1 and "| all | 4 | 3 |" in table, table
    assert "DriverSuiteTest.failsWithOrdo(): org.opentest4j.AssertionFailedError: wants Aeron's driver" in table
    assert "failsWithAeron" not in table
    told = json.loads(found.read_text())
    assert (told["passed_with_aeron"], told["passed_with_ordo"], told["not_run_with_aeron"]) == (4, 3, [])
    passed = {one["name"] for one in told["tests"] if one["passed_with_ordo"]}
    assert passed == {
        "DriverSuiteTest.echoes(String)[1]",
        "DriverSuiteTest.echoes(String)[2]",
        "DriverSuiteTest.hasTheTermLengthThatWasSet()",
    }


@with_the_newest
@pytest.mark.parametrize("options", [[], ["--keep-driver"]], ids=["ordos-driver", "aerons-driver"])
def test_an_archive_of_the_tests_jvm_is_ordos(
    java_class_path: tuple[Path, Path],
    junit: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
) -> None:
    """One records with both; one looks for what only Aeron's archive has; one gives it what Ordo's cannot take."""
    jar, _ = java_class_path
    compile_suite(tmp_path, jar, junit, jar_of(BYTE_BUDDY))
    status = aeron_suite.main(
        [str(tmp_path), "--classes", "Archive", "--archive", *options, "--java-options", JAVA_OPTIONS]
    )
    table = capsys.readouterr().out
    assert status == 1 and "| all | 3 | 2 |" in table, table
    assert "ArchiveSuiteTest.isAeronsOwn(): org.opentest4j.AssertionFailedError" in table


@with_the_newest
def test_without_byte_buddy_no_archive_is_replaced(
    java_class_path: tuple[Path, Path], junit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jar, _ = java_class_path
    compile_suite(tmp_path, jar, junit)
    assert aeron_suite.main([str(tmp_path), "--archive"]) == 2
    assert "javac cannot compile OrdoArchive.java with these Aeron and Byte Buddy" in capsys.readouterr().err
