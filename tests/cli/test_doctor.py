"""`ordo doctor` finds what is wrong with a machine, each fault planted, and says what to do."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.cluster.checks import doctor
from ordo.cluster.checks.doctor import Verdict, examine
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import find_ports
from ordo.runtime.native.kernel_clock import ClockQuality

CONFIG = """
[node]
member_id = 0
data_dir = "{data}"
[[members]]
id = 0
host = "127.0.0.1"
port = {port}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(CONFIG.format(data=tmp_path / "data", port=find_ports(1)[0]))
    return path


def verdicts(config: Path, subject: str) -> list[Verdict]:
    return [one.verdict for one in examine(load_config(config)) if one.subject == subject]


def test_every_subject_is_looked_at_and_nothing_is_left_behind(config: Path) -> None:
    findings = examine(load_config(config))
    assert {one.subject for one in findings} == {
        *("shared memory", "disk", "socket buffers", "open files", "names", "ports", "clock")
    } - ({"socket buffers"} if not doctor.PROC_NET.joinpath("rmem_max").exists() else set())
    assert all(bool(one.remedy) == (one.verdict is not Verdict.OK) for one in findings)
    assert [path.name for path in config.parent.iterdir()] == ["node.toml"]


def test_a_taken_port_and_an_unknown_name_fail(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = load_config(config).members[0].port
    assert port is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", port + 2))
        assert run(["doctor", "--config", str(config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if line.startswith("fail"))
    assert f"log 127.0.0.1:{port + 2}" in line and "end what uses it" in line
    config.write_text(config.read_text().replace("127.0.0.1", "no-such-host.invalid"))
    assert Verdict.FAIL in verdicts(config, "names")


def test_short_memory_and_a_short_disk(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, memory in ((10 << 30, Verdict.OK), (100 << 20, Verdict.WARN), (48 << 20, Verdict.FAIL)):
        monkeypatch.setattr(doctor, "free_bytes", lambda folder, free=free: free)
        assert verdicts(config, "shared memory") == [memory]
    assert verdicts(config, "disk")[0] is Verdict.WARN


def test_small_buffers_few_files_and_a_slow_disk_are_warned_of(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rmem_max", "wmem_max"):
        (tmp_path / name).write_text("212992\n")
    monkeypatch.setattr(doctor, "PROC_NET", tmp_path)
    assert verdicts(config, "socket buffers") == [Verdict.WARN, Verdict.WARN]
    monkeypatch.setattr("ordo.cluster.checks.doctor.resource.getrlimit", lambda _: (1024, 1024))
    assert verdicts(config, "open files") == [Verdict.WARN]
    monkeypatch.setattr("ordo.cluster.checks.doctor.resource.getrlimit", lambda _: (32, 32))
    assert verdicts(config, "open files") == [Verdict.FAIL]
    monkeypatch.setattr(doctor, "_sync_ms", lambda folder: 25.0)
    assert verdicts(config, "disk")[1] is Verdict.WARN
    config.write_text(config.read_text().replace("member_id = 0", 'member_id = 0\nsync = "none"'))
    assert verdicts(config, "disk")[1] is Verdict.OK, "nothing waits for it"


@pytest.mark.parametrize(
    ("told", "verdict", "text"),
    [
        (None, Verdict.WARN, "forbids adjtimex"),
        (ClockQuality(False, 0, 16_000_000_000, 16_000_000_000), Verdict.WARN, "does not say that it is synchronized"),
        (ClockQuality(True, -2_500, 20_000, 1_500_001), Verdict.WARN, "clock_error_max is 1.500 ms"),
        (ClockQuality(True, -2_500, 20_000, 1_500_000), Verdict.OK, "off by at most 1.500 ms, estimated 0.020 ms"),
    ],
)
def test_a_clock_that_nothing_keeps_or_not_well_is_warned_of(
    config: Path, monkeypatch: pytest.MonkeyPatch, told: ClockQuality | None, verdict: Verdict, text: str
) -> None:
    config.write_text(config.read_text() + '[metrics]\nclock_error_max = "1500us"\n')
    monkeypatch.setattr(doctor, "read_clock_quality", lambda: told)
    (finding,) = [one for one in examine(load_config(config)) if one.subject == "clock"]
    assert finding.verdict is verdict and text in finding.text
    assert bool(finding.remedy) == (verdict is Verdict.WARN)


def test_who_has_standbys_take_snapshots_is_told_what_they_are_compared_by(config: Path) -> None:
    assert verdicts(config, "snapshots") == []
    config.write_text(config.read_text() + '[snapshot]\nby = "standby"\nstandbys = ["10.0.1.1:20000"]\n')
    (finding,) = (one for one in examine(load_config(config)) if one.subject == "snapshots")
    assert finding.verdict is Verdict.OK and "10.0.1.1:20000" in finding.text and "state_hash" in finding.text


def test_a_folder_that_cannot_be_written_fails(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = config.read_text()
    config.write_text(text.replace(str(config.parent / "data"), "/proc/nowhere"))
    assert run(["doctor", "--config", str(config), "--json"]) == 1
    failed = [one for one in json.loads(capsys.readouterr().out) if one["verdict"] == "fail"]
    assert [one["subject"] for one in failed] == ["disk"]
