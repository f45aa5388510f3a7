"""`ordo deploy docker`, with a daemon in memory; tests/docker/test_deploy_docker.py has a real one."""

from __future__ import annotations

import json
import sys
from typing import Any

import docker
import pytest
from docker.errors import APIError, DockerException

from ordo.cli import EXIT_FAILED, EXIT_NO_QUORUM, EXIT_USAGE, run
from tests.cluster.integration.command import demand_one_line, ordo
from tests.deploy.fake_docker import BROKEN_IMAGE, FakeDocker, FakeObject

START = ("start", "--service", "tally:Tally", "--image", "tally:1.0")


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    fake = FakeDocker("tally:1.0", "tally:1.1", BROKEN_IMAGE)
    monkeypatch.setattr(docker, "from_env", lambda: fake)
    monkeypatch.setattr("ordo.deploy.docker_cluster.POLL_INTERVAL_S", 0.001)
    monkeypatch.setattr("ordo.deploy.docker_containers.POLL_INTERVAL_S", 0.001)
    return fake


def deploy(*words: str) -> int:
    return run(["deploy", "docker", *words])


def demand_line(capsys: pytest.CaptureFixture[str], *words: str) -> None:
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ordo: ")
    for word in words:
        assert word in line


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert deploy("status", "--json", *words) == 0
    return json.loads(capsys.readouterr().out)


def test_three_members_are_started_as_compose_does(daemon: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy(*START, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["leader_member_id"] in range(3) and found["network"] == "ordo"
    assert [one["container"] for one in found["members"]] == ["ordo-node0", "ordo-node1", "ordo-node2"]
    assert {one["image"] for one in found["members"]} == {"tally:1.0"}
    for member_id, container in enumerate(daemon.made):
        assert container.options["read_only"] and container.options["cap_drop"] == ["ALL"]
        assert container.options["networking_config"] == {"ordo": {"Aliases": [f"node{member_id}"]}}
        configuration = container.configuration
        assert configuration["node"]["member_id"] == member_id
        assert configuration["service"]["class"] == "tally:Tally"
        assert [one["host"] for one in configuration["members"]] == ["node0", "node1", "node2"]
    assert daemon.is_closed


def test_five_members_and_three_again(daemon: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(*START)
    assert deploy("scale", "5") == 0
    assert daemon.events == [
        *("add-learner 3=node3:20000", "promote 3", "promote 3"),
        *("add-learner 4=node4:20000", "promote 4", "promote 4"),
    ]
    assert daemon.cluster.roles == dict.fromkeys(range(5), "voter")
    newest = daemon.made[-1].configuration
    assert newest["node"]["learner"] is True and len(newest["members"]) == 5
    assert newest["service"]["class"] == "tally:Tally"
    daemon.cluster.leader = 4
    daemon.events.clear()
    assert deploy("scale", "3") == 0
    assert daemon.events == ["transfer --to 0", "remove 4", "remove 3"]
    assert [one.name for one in daemon.made] == ["ordo-node0", "ordo-node1", "ordo-node2"]
    assert deploy("scale", "4") == 0
    assert set(daemon.cluster.roles) == {0, 1, 2, 5}, "the id of a member that was taken out is not used again"
    assert [one["role"] for one in shown(capsys)["members"]] == ["voter"] * 4


def test_what_was_interrupted_is_finished(daemon: FakeDocker) -> None:
    """A learner without a container, and a container of a member that the log has no more."""
    deploy(*START)
    deploy("scale", "4")
    del daemon.cluster.roles[3]
    daemon.cluster.elect()
    daemon.cluster.roles[7] = "learner"
    assert deploy("scale", "4") == 0
    assert daemon.cluster.roles == dict.fromkeys((0, 1, 2, 7), "voter")
    assert [one.member_id for one in daemon.made] == [0, 1, 2, 7]


def test_containers_are_replaced_one_at_a_time_the_leader_last(
    daemon: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(*START)
    daemon.cluster.leader = 1
    daemon.volume("ordo-node1").content["log"] = "precious"
    daemon.events.clear()
    assert deploy("upgrade", "--image", "tally:1.1") == 0
    assert daemon.events == ["stop 0", "stop 2", "transfer", "stop 1"]
    assert {one["image"] for one in shown(capsys)["members"]} == {"tally:1.1"}
    assert daemon.volume("ordo-node1").content["log"] == "precious"
    daemon.events.clear()
    assert deploy("upgrade", "--image", "tally:1.1") == 0
    assert daemon.events == [], "they run it already"


def test_an_image_that_does_not_work_stops_the_upgrade_at_the_first_member(
    daemon: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(*START)
    daemon.cluster.leader = 0
    capsys.readouterr()
    assert deploy("upgrade", "--image", BROKEN_IMAGE) == EXIT_FAILED
    demand_line(capsys, "ordo-node1", "status 2", "no module named tally")
    assert [one.image for one in sorted(daemon.made, key=lambda one: one.name)] == [
        "tally:1.0",
        BROKEN_IMAGE,
        "tally:1.0",
    ]
    assert deploy("upgrade", "--image", "tally:1.0") == 0
    assert [one["health"] for one in shown(capsys)["members"]] == ["healthy"] * 3


def test_everything_is_removed_and_only_that(daemon: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(*START)
    deploy(*START, "--name", "other")
    deploy("scale", "4")
    deploy("scale", "3")
    capsys.readouterr()
    assert deploy("remove", "--json") == 0
    assert json.loads(capsys.readouterr().out)["removed"] == ["ordo-node0", "ordo-node1", "ordo-node2"]
    assert {one.name for one in daemon.networks_made} == {"other"}
    names = {"other-node0", "other-node1", "other-node2"}
    assert {one.name for one in daemon.made} == {one.name for one in daemon.volumes_made} == names


def test_nothing_stays_of_a_start_that_fails(daemon: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy("start", "--service", "tally:Tally", "--image", BROKEN_IMAGE) == EXIT_FAILED
    demand_line(capsys, "ordo-node0 ended with status 2", "no module named tally")
    assert (daemon.made, daemon.volumes_made, daemon.networks_made) == ([], [], [])


def test_no_leader_is_status_3(daemon: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(*START)
    for container in daemon.made[:2]:
        container.stop(timeout=0)
    capsys.readouterr()
    assert deploy("status", "--json") == EXIT_NO_QUORUM
    printed = capsys.readouterr()
    assert json.loads(printed.out)["leader_member_id"] is None
    assert printed.err == "ordo: no member of ordo leads: see `docker logs ordo-node0`\n"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("start", "--service", "a:B", "--image", "none"), EXIT_USAGE, ["--image none", "docker build", "docker pull"]),
        ((*START, "--name", "A b"), EXIT_USAGE, ["--name A b", "lower-case"]),
        ((*START, "--members", "8"), EXIT_USAGE, ["8 members", "1 to 7"]),
        ((*START, "--name", "mine"), EXIT_USAGE, ["--name mine", "volume mine-node1 already"]),
        (("start", "--image", "tally:1.0"), EXIT_USAGE, ["--service"]),
        (("scale", "3"), EXIT_FAILED, ["no cluster ordo here", "deploy docker start"]),
        (("scale", "0"), EXIT_USAGE, ["0 members", "1 to 7"]),
        (("upgrade", "--image", "none"), EXIT_USAGE, ["--image none"]),
        (("upgrade", "--image", "tally:1.1"), EXIT_FAILED, ["no cluster ordo here"]),
        (("status",), EXIT_FAILED, ["no cluster ordo here"]),
        (("remove", "--name", "gone"), EXIT_FAILED, ["no cluster gone here"]),
    ],
)
def test_what_people_do_wrong_is_one_line(
    daemon: FakeDocker, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, said: list[str]
) -> None:
    daemon.volumes_made.append(FakeObject("mine-node1", {}, daemon.volumes_made))
    assert deploy(*words) == status
    demand_line(capsys, *said)
    assert not daemon.made


def test_a_name_that_is_taken(daemon: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(*START)
    capsys.readouterr()
    assert deploy(*START) == EXIT_USAGE
    demand_line(capsys, "container ordo-node0 already", "ordo deploy docker remove --name ordo")
    assert len(daemon.made) == 3


def test_no_package_no_daemon_and_a_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    demand_one_line(ordo("deploy", "docker", "status"), EXIT_FAILED, "cannot be reached at unix:///nowhere/docker.sock")
    fake = FakeDocker()

    def refuse(**_: Any) -> None:
        raise APIError("500", explanation="no space left\non device")

    monkeypatch.setattr(docker, "from_env", lambda: fake)
    monkeypatch.setattr(fake.containers, "list", refuse)
    assert deploy("status") == EXIT_FAILED
    demand_line(capsys, "Docker refuses: no space left on device")

    def lose(**_: Any) -> None:
        raise DockerException("connection lost")

    monkeypatch.setattr(fake.containers, "list", lose)
    assert deploy("status") == EXIT_FAILED
    demand_line(capsys, "Docker does not answer: connection lost")
    monkeypatch.setitem(sys.modules, "docker", None)
    assert deploy("status") == EXIT_USAGE
    demand_line(capsys, "docker is not installed", "ordo-sequencer[docker]")
