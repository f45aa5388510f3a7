"""What deploy/ ships is read by the programs it is for."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.configuration import COMPOSE_HOSTS, compose_files

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_configurations_of_compose_are_of_its_services() -> None:
    """That they are what `ordo init` writes is checked by `python -m tools.verify configuration`."""
    for path in compose_files():
        assert path.exists()
        assert f"{path.stem}:" in (DEPLOY / "compose.yaml").read_text()
    for host in COMPOSE_HOSTS:
        assert f"hostname: {host}\n" in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reads_the_unit_without_complaint(tmp_path: Path) -> None:
    """The program it starts is replaced by one that is there."""
    unit = tmp_path / "ordo-node.service"
    unit.write_text((DEPLOY / "systemd" / "ordo-node.service").read_text().replace("/usr/local/bin/ordo", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if "ordo-node" in line] == []
