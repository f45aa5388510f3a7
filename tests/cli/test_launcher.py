"""What LocalCluster does before and around its node processes."""

import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ordo.deploy.launcher import PORTS, PORTS_PER_MEMBER, STOP_TIMEOUT_S, LocalCluster, find_ports, release_ports
from ordo.runtime.errors import ConfigurationError
from tests.patience import patient


def test_configuration_of_every_member_is_whole(tmp_path: Path) -> None:
    cluster = LocalCluster(
        "a.b:C", root=tmp_path, sync="none", service_mode="inline", cluster={"session_timeout": "1s", "max_sessions": 7}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalCluster, "start", lambda self: self)
        with cluster:
            for member_id in range(3):
                config = tomllib.loads(cluster.config_path(member_id).read_text())
                assert config["node"] == {
                    "member_id": member_id,
                    "data_dir": str(tmp_path / str(member_id)),
                    "aeron_dir": str(cluster.aeron_dir(member_id)),
                    "service_mode": "inline",
                    "sync": "none",
                }
                assert [member["id"] for member in config["members"]] == [0, 1, 2]
                assert config["cluster"] == {"session_timeout": "1s", "max_sessions": 7}
            ports = [member["port"] for member in config["members"]]
            assert cluster.ingress_endpoints == {index: f"127.0.0.1:{port}" for index, port in enumerate(ports)}
    assert not tmp_path.exists()


def test_ports_of_members_are_free_and_apart() -> None:
    first, second = find_ports(3), find_ports(3)
    blocks = [set(range(port, port + PORTS_PER_MEMBER)) for port in first + second]
    assert len(set.union(*blocks)) == 6 * PORTS_PER_MEMBER
    assert all(port in PORTS for port in first + second)


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = find_ports(1)
    release_ports([port])
    monkeypatch.setattr("ordo.deploy.launcher.PORTS", range(port, port + 1, 8))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", port + 2))
        with pytest.raises(ConfigurationError, match="no free UDP ports"):
            find_ports(1)
    assert find_ports(1) == [port]
    release_ports([port])


FINDS_ONE = """
from ordo.deploy import launcher
from ordo.runtime.errors import ConfigurationError
launcher.PORTS = range({port}, {port} + 1, 8)
try:
    print(launcher.find_ports(1))
except ConfigurationError:
    print("none")
"""


def test_processes_that_look_at_once_are_given_different_ports() -> None:
    def another_finds(port: int) -> str:
        command = [sys.executable, "-c", FINDS_ONE.format(port=port)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=patient(60)).stdout.strip()

    def is_found_once_released() -> bool:
        (port,) = find_ports(1)  # and nobody binds it yet
        assert another_finds(port) == "none"
        release_ports([port])
        return another_finds(port) == f"[{port}]"

    assert any(is_found_once_released() for _ in range(5)), "another test may have been given it: not each time"


def test_a_member_that_does_not_run_cannot_be_killed(tmp_path: Path) -> None:
    cluster = LocalCluster("a.b:C", root=tmp_path)
    with pytest.raises(ConfigurationError, match="member 1 is not running; start it first"):
        cluster.kill(1)
    assert cluster.leader() is None
    cluster.close()


def test_a_node_that_takes_long_to_end_is_waited_for_with_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []

    class Slow:
        pid = 1

        def poll(self) -> int | None:
            return 0 if waits else None

        def wait(self, timeout: float | None = None) -> int:
            waits.append(timeout)
            return 0

        def send_signal(self, sig: int) -> None:
            """It takes its time."""

        def terminate(self) -> None:
            """It takes its time."""

        def kill(self) -> None:
            raise AssertionError("killed before its time")

    monkeypatch.setattr(LocalCluster, "spawn", lambda *_, **__: Slow())
    monkeypatch.setattr(LocalCluster, "patience", 4.0)
    cluster = LocalCluster("a.b:C", root=tmp_path, member_count=1)
    cluster.start_member(0)
    assert cluster.stop(0) == 0
    cluster.close()
    assert waits == [4 * STOP_TIMEOUT_S]
