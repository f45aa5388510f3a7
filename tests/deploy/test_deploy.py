"""What deploy/ ships is read by the programs it is for."""

import shutil
import subprocess
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner

from cluster.node.config import load_config
from deploy.write_configs import main

DEPLOY = Path(__file__).parents[2] / "deploy"
HOSTS = ["172.28.5.10", "172.28.5.11", "172.28.5.12"]


@pytest.fixture
def app() -> Typer:
    app = Typer(rich_markup_mode=None)
    app.command()(main)
    return app


def arguments(out: Path, hosts: list[str]) -> list[str]:
    return [*(part for host in hosts for part in ("--host", host)), "--out", str(out)]


def test_written_configurations_are_those_of_one_cluster(app: Typer, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*arguments(tmp_path / "new", HOSTS), "--port", "9000", "--service", "a.b:C"])
    assert result.exit_code == 0
    configs = [load_config(tmp_path / "new" / f"node{member_id}.toml") for member_id in range(3)]
    assert [config.node.member_id for config in configs] == [0, 1, 2]
    assert {config.member_list for config in configs} == {configs[0].member_list}
    assert [member.archive for member in configs[0].member_list] == [f"{host}:9004" for host in HOSTS]
    assert {config.service.class_ for config in configs} == {"a.b:C"}


def test_the_shipped_configurations_are_those_it_writes(app: Typer, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, arguments(tmp_path, HOSTS)).exit_code == 0
    for path in sorted(tmp_path.iterdir()):
        assert (DEPLOY / "compose" / path.name).read_text() == path.read_text()
        assert f"{path.stem}:" in (DEPLOY / "compose.yaml").read_text()
        assert path.stem in (DEPLOY / "compose.yaml").read_text()
    for host in HOSTS:
        assert f"ipv4_address: {host} " in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.parametrize("hosts", [["a", "a"], [str(number) for number in range(8)]])
def test_wrong_hosts_are_refused(app: Typer, tmp_path: Path, hosts: list[str]) -> None:
    result = CliRunner().invoke(app, arguments(tmp_path, hosts))
    assert result.exit_code == 2
    assert "1 to 7 different hosts" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_left_alone(app: Typer, tmp_path: Path) -> None:
    (tmp_path / "node1.toml").write_text("mine")
    assert CliRunner().invoke(app, arguments(tmp_path, HOSTS)).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["node1.toml"]
    assert (tmp_path / "node1.toml").read_text() == "mine"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reads_the_unit_without_complaint(tmp_path: Path) -> None:
    """The program it starts is replaced by one that is there."""
    unit = tmp_path / "ordo-node.service"
    unit.write_text((DEPLOY / "systemd" / "ordo-node.service").read_text().replace("/usr/local/bin/ordo", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if "ordo-node" in line] == []
