"""What deploy/ ships is read by the programs it is for, and says the same in every place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ordo.cli import EXIT_USAGE, run
from ordo.cluster.settings.config import load_config
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from tests.patience import patient
from tests.snippets import Page
from tools.configuration import COMPOSE_HOSTS, container_files

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def test_configurations_of_containers_are_there() -> None:
    """That they are what `ordo init` writes is checked by `python -m tools.verify configuration`."""
    assert all(path.exists() for path in container_files())


@pytest.mark.parametrize("member_id", range(3))
def test_a_service_of_compose_is_the_member_of_its_configuration(member_id: int) -> None:
    host = COMPOSE_HOSTS[member_id]
    service = COMPOSE["services"][host]
    assert service["hostname"] == host
    configuration, data = (one.split(":")[:2] for one in service["volumes"])
    assert configuration[1] == "/etc/ordo/node.toml"
    config = load_config(DEPLOY / configuration[0])
    assert config.node.member_id == member_id
    assert config.own_member.ingress == f"{host}:20000"
    assert data[0] in COMPOSE["volumes"] and config.node.data_dir.is_relative_to(data[1])
    assert service["read_only"] is True and service["cap_drop"] == ["ALL"]


def test_prometheus_of_compose_asks_every_node() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "compose.yaml").read_text())["scrape_configs"]
    targets = [target for job in scraped for group in job["static_configs"] for target in group["targets"]]
    ports = [load_config(DEPLOY / "compose" / f"{host}.toml").metrics.port for host in COMPOSE_HOSTS]
    assert targets == [f"{host}:{port}" for host, port in zip(COMPOSE_HOSTS, ports, strict=True)]
    assert f"127.0.0.1:{ports[0]}/readyz" in DOCKERFILE


def test_the_image_runs_as_one_who_is_nobody_else() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users == ["10001"]
    for name in ("Dockerfile", "by-name.Dockerfile"):
        path = DEPLOY.parent / "examples" / "image" / name
        assert re.findall(r"^USER (\S+)", path.read_text(), re.MULTILINE) == ["root", "10001"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reads_the_unit_without_complaint(tmp_path: Path) -> None:
    """The program it starts is replaced by one that is there."""
    for name in ("ordo-node.service", "ordo-node@.service"):
        unit = tmp_path / name.replace("@", "@0")
        text = (DEPLOY / "systemd" / name).read_text()
        assert "/usr/local/bin/ordo" in text
        unit.write_text(text.replace("/usr/local/bin/ordo", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
        assert [line for line in done.stderr.splitlines() if "ordo-node" in line] == []


@pytest.mark.parametrize("name", ["ordo-node.service", "ordo-node@.service"])
def test_a_fault_that_will_not_go_is_not_met_again_and_again(name: str) -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd" / name).read_text(), re.MULTILINE))
    assert settings["Restart"] == "on-failure"
    assert {int(one) for one in settings["RestartPreventExitStatus"].split()} == {EXIT_USAGE, EXIT_STATUS_SERVICE}
    starts_s = int(settings["StartLimitBurst"]) * int(settings["RestartSec"])
    assert starts_s < int(settings["StartLimitIntervalSec"]), "the limit is reached"


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
@pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemctl is not installed")
def test_the_commands_of_the_page_install_the_unit(tmp_path: Path) -> None:
    """In a copy of /etc; no systemd runs that could start it now."""
    etc, folder = tmp_path / "etc", tmp_path / "machine"
    subprocess.run(["cp", "-a", "/etc", str(etc)], check=True)
    shutil.copytree(DEPLOY, folder / "deploy")
    shutil.copy(DEPLOY / "compose" / "node0.toml", folder)
    commands = Page("DEPLOYMENT.md").take("sh", "useradd").replace(" --now", "")
    script = f"mount --bind {etc} /etc; cd {folder}; {commands} systemctl is-enabled ordo-node; id ordo"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script],
        env={**os.environ, "SYSTEMD_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=patient(60),
    )
    assert done.returncode == 0, done.stderr
    assert "enabled" in done.stdout and "(ordo)" in done.stdout
    assert load_config(etc / "ordo" / "node.toml").node.member_id == 0


def test_the_page_writes_configurations_of_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = Page("DEPLOYMENT.md").take("sh", "--profile container").splitlines()
    assert run(line.split()[1:]) == 0
    assert [load_config(path).own_member.ingress for path in sorted(Path("conf").glob("*.toml"))] == [
        f"{host}:20000" for host in COMPOSE_HOSTS
    ]
