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


@pytest.fixture(scope="module")
def junit() -> Path:
    """JUnit's jar, through Maven the first time."""
    jar = cache_folder() / f"{'-'.join(aeron_suite.JUNIT.split(':')[1:])}.jar"
    try:
        with only_one():
            if not jar.is_file():
                run_maven("dependency:copy", f"-Dartifact={aeron_suite.JUNIT}", f"-DoutputDirectory={jar.parent}")
    except PeerMissingError as missing:
        go_without(missing)
    return jar


@with_the_newest
def test_what_passes_with_aeron_is_run_with_ordo(
    java_class_path: tuple[Path, Path], junit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three tests pass with both, one fails with Aeron and does not count, one fails with Ordo and is told."""
    jar, _ = java_class_path
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / jar.name).symlink_to(jar)
    compile_java(sorted(SOURCES.glob("*.java")), f"{jar}:{junit}", tmp_path / "classes")
    found = tmp_path / "found.json"
    status = aeron_suite.main(
        [
            str(tmp_path),
            *("--junit", str(junit), "--json", str(found)),
            *("--java-options", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m"),
        ]
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
