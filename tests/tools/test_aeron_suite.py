"""The verdicts of a suite that ran twice, and the settings of the driver that stands in for Aeron's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ordo.runtime.errors import ConfigurationError
from tools.aeron_suite import (
    SuiteError,
    Verdict,
    as_json,
    class_names,
    class_path,
    main,
    progress,
    read_run,
    table,
    verdicts,
    with_nested,
)
from tools.aeronarchive import archive_settings
from tools.aeronmd import REFUSED, SETTINGS, driver_settings, given

AERON = """\
begun\tc/a\tOneTest.a()\t
successful\tc/a\tOneTest.a()\t
begun\tc/b\tOneTest.b()\t
successful\tc/b\tOneTest.b()\t
begun\tc/c\tOneTest.c()\t
failed\tc/c\tOneTest.c()\tError: of its own
skipped\tc/d\tOneTest.d()\tnot here
successful\tc/e\tOneTest.e()\t
successful\tc/f/1\tOneTest.f()[1]\t
end
"""
ORDO = """\
begun\tc/a\tOneTest.a()\t
successful\tc/a\tOneTest.a()\t
begun\tc/b\tOneTest.b()\t
failed\tc/b\tOneTest.b()\tError: unknown session
container\tc/f\tOneTest.f()\tError: no parameters
begun\tc/e\tOneTest.e()\t
"""


def test_only_what_passes_with_aeron_counts() -> None:
    ordo = read_run(ORDO.splitlines())
    ordo.note = "not done within 600 s"
    found = verdicts("OneTest", read_run(AERON.splitlines()), ordo)
    assert [(one.name, one.has_passed, one.error) for one in found] == [
        ("OneTest.a()", True, ""),
        ("OneTest.b()", False, "Error: unknown session"),
        ("OneTest.e()", False, "not done within 600 s"),
        ("OneTest.f()[1]", False, "Error: no parameters"),
    ]
    shown = list(table(found, ["TwoTest: the run ended with status 1"]))
    assert shown[2:4] == ["| OneTest | 4 | 1 |", "| all | 4 | 1 |"]
    assert "  OneTest.b(): Error: unknown session" in shown and "  OneTest.a(): " not in "\n".join(shown)
    assert shown[-1] == "  TwoTest: the run ended with status 1"
    told = json.loads(as_json(found, []))
    assert (told["passed_with_aeron"], told["passed_with_ordo"], len(told["tests"])) == (4, 1, 4)


def test_a_test_that_a_run_never_reached_has_not_passed() -> None:
    aeron = read_run(["successful\tc/a\tOneTest.a()\t", "end"])
    (found,) = verdicts("OneTest", aeron, read_run(["end"]))
    assert (found.has_passed, found.error) == (False, "did not run")


def test_tests_are_found_in_a_folder_and_in_a_checkout(tmp_path: Path) -> None:
    for name in ("classes/io/OneTest", "classes/io/OneTest$Inner", "classes/io/Helper", "classes/io/TwoTest"):
        (tmp_path / "a" / f"{name}.class").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / f"{name}.class").touch()
    (tmp_path / "a" / "lib").mkdir()
    (tmp_path / "a" / "lib" / "aeron.jar").touch()
    entries = class_path(tmp_path / "a", "more.jar")
    assert entries == [str(tmp_path / "a" / "classes"), str(tmp_path / "a" / "lib" / "aeron.jar"), "more.jar"]
    assert class_names([tmp_path / "a" / "classes"], "") == ["io.OneTest", "io.TwoTest"]
    assert class_names([tmp_path / "a" / "classes"], "Two") == ["io.TwoTest"]
    (tmp_path / "a" / "classes" / "io" / "OneTest$InnerTest.class").touch()
    assert with_nested([tmp_path / "a" / "classes"], "io.OneTest") == ["io.OneTest", "io.OneTest$InnerTest"]
    assert with_nested([tmp_path / "a" / "classes"], "io.TwoTest") == ["io.TwoTest"]
    made = tmp_path / "b" / "aeron-x" / "build"
    for part in ("classes/java/test", "classes/java/main", "resources/test"):
        (made / part).mkdir(parents=True)
    assert class_path(tmp_path / "b", "") == [
        str(made / part) for part in ("classes/java/test", "classes/java/main", "resources/test")
    ]
    with pytest.raises(SuiteError, match="compile the tests there first"):
        class_path(tmp_path / "a" / "lib", "")
    with pytest.raises(SuiteError, match="no class whose name ends with Test matches 'Three'"):
        class_names([tmp_path / "a" / "classes"], "Three")


def test_a_folder_without_tests_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "compile the tests there first" in capsys.readouterr().err


def test_a_run_with_nothing_of_ordo_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main([str(tmp_path), "--keep-driver"])
    assert refused.value.code == 2
    assert "--keep-driver is for --archive" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = tmp_path / "missing" / "verdicts.json"
    for path, why in ((wanted, "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(SystemExit) as refused:
            main([str(tmp_path), "--json", str(path)])
        assert refused.value.code == 2
        assert f"argument --json: {path}: {why}" in capsys.readouterr().err


def test_aerons_settings_become_those_of_ordos_driver(tmp_path: Path) -> None:
    properties = tmp_path / "driver.properties"
    properties.write_text("# of a driver\naeron.mtu.length=8k\naeron.dir=/tmp/of-the-file\n")
    environment = {
        "AERON_DIR": "/tmp/of-the-environment",
        "AERON_CLIENT_LIVENESS_TIMEOUT": "9000000000",
        "AERON_TIMER_INTERVAL": "100ms",
        "AERON_DRIVER_TIMEOUT": "20000",
        "AERON_THREADING_MODE": "SHARED_NETWORK",
        "AERON_RECEIVER_WILDCARD_PORT_RANGE": "20000 20010",
        "AERON_MULTICAST_FLOWCONTROL_SUPPLIER": "aeron_min_flow_control_strategy_supplier",
        "AERON_DRIVER_TERMINATION_VALIDATOR": "allow",
        "AERON_RECEIVER_GROUP_TAG": "",
        "AERON_PRINT_CONFIGURATION": "true",
        "PATH": "/bin",
    }
    said: list[str] = []
    settings = driver_settings(
        given(
            environment, [str(properties), "-Daeron.term.buffer.length=1m", "-Daeron.spies.simulate.connection=true"]
        ),
        said.append,
    )
    assert settings.directory == "/tmp/of-the-file"
    assert (settings.mtu, settings.term_length) == (8192, 1 << 20)
    assert (settings.client_liveness_timeout_ns, settings.timer_interval_ns) == (9_000_000_000, 100_000_000)
    assert settings.driver_timeout_ns == 20_000_000_000
    assert settings.threading_mode == "shared-network"
    assert settings.receiver_wildcard_ports == "20000-20010"
    assert settings.multicast_flow_control == "min"
    assert settings.termination_allowed and settings.spies_simulate_connection
    assert settings.image_term_length_max == 1 << 30, "as Aeron's driver takes"
    assert settings.receiver_group_tag is None and not settings.delete_directory_on_shutdown
    assert said == ["aeronmd: AERON_PRINT_CONFIGURATION=true means nothing to Ordo's driver"]


def test_what_would_change_a_test_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="AERON_UDP_CHANNEL_OUTGOING_INTERCEPTORS=loss: Ordo's driver has no"):
        driver_settings(given({"AERON_UDP_CHANNEL_OUTGOING_INTERCEPTORS": "loss"}, []), print)
    with pytest.raises(ConfigurationError, match="AERON_MTU_LENGTH=wide"):
        driver_settings(given({"AERON_MTU_LENGTH": "wide"}, []), print)
    with pytest.raises(ConfigurationError, match="-x: unknown argument"):
        given({}, ["-x"])
    assert not SETTINGS.keys() & REFUSED.keys()


def test_aerons_settings_become_those_of_ordos_archive() -> None:
    values = given(
        {"AERON_DIR": "/tmp/driver"},
        [
            "-Daeron.archive.dir=/tmp/archive",
            "-Daeron.archive.id=7",
            "-Daeron.archive.file.sync.level=0",
            "-Daeron.archive.segment.file.length=1m",
            "-Daeron.archive.control.channel=aeron:udp?endpoint=localhost:8010",
            "-Daeron.archive.connect.timeout=3s",
            "-Daeron.archive.max.concurrent.replays=5",
            "-Daeron.archive.recording.events.channel=aeron:ipc",
        ],
    )
    settings = archive_settings(values)
    assert (settings.aeron_dir, settings.own_driver) == ("/tmp/driver", False)
    assert (settings.directory, settings.archive_id, settings.sync) == ("/tmp/archive", 7, "none")
    assert (settings.segment_length_bytes, settings.events_channel) == (1 << 20, "aeron:ipc")
    assert settings.control.control_channel == "aeron:udp?endpoint=localhost:8010"
    assert (settings.control.connect_timeout_ns, settings.control.replays_max) == (3_000_000_000, 5)
    assert archive_settings(values | {"ARCHIVE_FILE_SYNC_LEVEL": "1"}).sync == "commit"


def test_what_ordos_archive_could_not_do_is_refused() -> None:
    values = {"DIR": "/tmp/driver", "ARCHIVE_DIR": "/tmp/archive"}
    with pytest.raises(ConfigurationError, match="AERON_ARCHIVE_AUTHENTICATOR_SUPPLIER=X: Ordo's archive has no such"):
        archive_settings(values | {"ARCHIVE_AUTHENTICATOR_SUPPLIER": "X"})
    with pytest.raises(ConfigurationError, match="AERON_ARCHIVE_ID=seven"):
        archive_settings(values | {"ARCHIVE_ID": "seven"})
    with pytest.raises(ConfigurationError, match="AERON_ARCHIVE_DIR is not set"):
        archive_settings({"DIR": "/tmp/driver"})


def test_a_class_tells_how_it_went_before_the_next_begins() -> None:
    found = [Verdict("OneTest", "OneTest.a()", True, ""), Verdict("OneTest", "OneTest.b()", False, "Error: late")]
    assert list(progress(found)) == ["  1 of 2 pass with Ordo", "  OneTest.b(): Error: late"]
