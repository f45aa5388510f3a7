"""Processes that tests fork are what executing their commands would give."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.agreement import await_that
from tests.cluster.integration.services import HASH_EVENT
from tests.clusters import container_of
from tests.forks import COMMAND, FORKS, PROGRAMS, ROOT, SWITCH, ForkedProcess, Forks, run_ordo, run_program
from tests.patience import patient
from tests.spares import HASH_SEED

pytestmark = pytest.mark.slow
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def forks() -> Iterator[Forks]:
    found = Forks()
    yield found
    found.close()


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["cluster", "--help"], ["nonsense"], ["errors", "--config", "not-there.toml"]],
)
def test_a_command_prints_and_ends_as_when_it_is_executed(arguments: list[str]) -> None:
    forked = run_ordo(arguments, patient(60))
    executed = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, env=ENVIRONMENT
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (executed.returncode, executed.stdout, executed.stderr)


@pytest.mark.parametrize(("case", "status"), [("media_driver", 0), ("nonsense", 1)])
def test_a_program_prints_and_ends_as_when_it_is_executed(
    case: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for switch in ("yes", "no"):
        monkeypatch.setenv(SWITCH, switch)
        done = run_program(PROGRAMS[0], ["after", case, "nowhere"], 60)
        found.append((done.returncode, done.stdout, done.stderr.splitlines()[-1:]))
    assert found[0] == found[1] and found[0][0] == status, found


def test_a_node_has_its_own_session_folder_and_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalCluster, "spawn", FORKS.spawn)
    with LocalCluster("ordo.starter.counter:Counter", root=tmp_path / "cluster", member_count=1) as cluster:
        cluster.await_leader()
        process = Path("/proc") / str(cluster.pid(0))
        assert os.getsid(cluster.pid(0)) == cluster.pid(0)
        assert (process / "cwd").resolve() == tmp_path.resolve()
        opened = [os.readlink(process / "fd" / str(number)) for number in range(3)]
        assert opened == ["/dev/null", *[str(cluster.log_path(0).resolve())] * 2]
        assert b"tests.forks" in (process / "cmdline").read_bytes(), "it was forked"
        assert cluster.kill(0) == -signal.SIGKILL
        cluster.start_member(0)
        cluster.await_leader()
        assert cluster.stop(0) == 0


def test_a_container_is_a_forked_child_of_its_node_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalCluster, "spawn", FORKS.spawn)
    with LocalCluster("tests.cluster.integration.services:Different", root=tmp_path, member_count=1) as cluster:
        cluster.await_leader()
        process = Path("/proc") / str(container_of(cluster, 0))
        assert b"tests.forks" in (process / "cmdline").read_bytes(), "it was forked"
        assert os.getsid(int(process.name)) == cluster.pid(0)
        (hashed,) = cluster.log_events(0, HASH_EVENT)
        environment = {**ENVIRONMENT, "PYTHONHASHSEED": HASH_SEED}
        assert (
            str(hashed["text_hash"])
            == subprocess.run(
                [sys.executable, "-c", "print(hash('ordo'))"],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
        )
        assert cluster.kill(0) == -signal.SIGKILL
        await_that(lambda: not process.exists(), "its end")
        cluster.start_member(0)
        cluster.await_leader()
        os.kill(container_of(cluster, 0), signal.SIGKILL)
        assert cluster.wait(0) == 1
        assert "was killed by signal 9" in cluster.logs(0)


def test_what_a_fork_cannot_give_is_executed(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_forked(command: tuple[str, ...], environment: dict[str, str]) -> bool:
        with open(os.devnull, "wb") as nothing:
            process = forks.spawn(command, env=environment, stdout=nothing, stderr=nothing)
        assert process.wait(patient(60)) == 0
        return isinstance(process, ForkedProcess)

    version = (*COMMAND, "--version")
    assert is_forked(version, ENVIRONMENT)
    assert is_forked((*COMMAND[:-1], PROGRAMS[0], "after", "media_driver", "nowhere"), ENVIRONMENT)
    assert not is_forked((*COMMAND[:-1], "this"), ENVIRONMENT)
    piped = forks.spawn(version, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert isinstance(piped, subprocess.Popen)
    assert piped.communicate()[0].startswith(b"ordo ")
    assert not is_forked(version, {**ENVIRONMENT, "PYTHONHASHSEED": "1"})
    assert not is_forked((sys.executable, "-c", ""), ENVIRONMENT)
    assert not is_forked(("nice", *version), ENVIRONMENT)
    monkeypatch.setenv("ORDO_FORKS", "no")
    assert not is_forked(version, ENVIRONMENT)


def test_nodes_end_with_the_process_that_forked_them(forks: Forks, tmp_path: Path) -> None:
    cluster = LocalCluster("ordo.starter.counter:Counter", root=tmp_path, member_count=1)
    command = [*COMMAND, "node", "--die-with-parent", "--config", str(cluster.config_path(0))]
    with cluster.log_path(0).open("ab") as log:
        process = forks.spawn([*command, "--service", cluster.service], env=ENVIRONMENT, stdout=log, stderr=log)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.0)
    await_that(lambda: "node.start" in cluster.logs(0), "the node's start", explain=lambda: cluster.logs(0))
    place = Path("/proc") / str(process.pid)
    forks.close()
    await_that(lambda: not place.exists(), "its end")
    cluster.close()
