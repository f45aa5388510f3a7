"""What deploy/ ships is read by the programs it is for."""

import shutil
import subprocess
from pathlib import Path

import pytest

from ordo.init import write_cluster

DEPLOY = Path(__file__).parents[2] / "deploy"
HOSTS = ["172.28.5.10", "172.28.5.11", "172.28.5.12"]


def test_the_shipped_configurations_are_those_that_init_writes(tmp_path: Path) -> None:
    for path in write_cluster(tmp_path, hosts=HOSTS).configs:
        assert (DEPLOY / "compose" / path.name).read_text() == path.read_text()
        assert f"{path.stem}:" in (DEPLOY / "compose.yaml").read_text()
        assert path.stem in (DEPLOY / "compose.yaml").read_text()
    for host in HOSTS:
        assert f"ipv4_address: {host} " in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reads_the_unit_without_complaint(tmp_path: Path) -> None:
    """The program it starts is replaced by one that is there."""
    unit = tmp_path / "ordo-node.service"
    unit.write_text((DEPLOY / "systemd" / "ordo-node.service").read_text().replace("/usr/local/bin/ordo", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if "ordo-node" in line] == []
