"""Nodes with few descriptors or little shared memory: one line at the start, or a refused session, and no node dies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy import launcher
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import OrdoError
from tests.cluster.integration.agreement import await_value, demand_agreement
from tests.cluster.integration.conftest import LEDGER, PATIENT, StartCluster
from tests.cluster.integration.writer import Writer
from tests.faults.networks import run
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
CLIENTS = 24
SMALL_SEGMENTS = {"log_term_length": "64k", "segment_length": "64k", "session_timeout": "60s"}
MEMORY_MIB = 64
Mount = Callable[[int], Path]


def with_files(limit: int) -> dict[int, list[str]]:
    return {member_id: ["prlimit", f"--nofile={limit}"] for member_id in range(3)}


def open_many(stack: ExitStack, cluster: LocalCluster, count: int) -> int:
    """Opens sessions until one is refused. Returns how many are open."""
    settings = ClientSettings(connect_timeout_s=patient(3.0))
    for opened in range(count):
        try:
            stack.enter_context(ClusterClient(cluster.ingress_endpoints, settings=settings))
        except OrdoError:
            return opened
    return count


def test_few_descriptors_refuse_sessions_and_end_no_node(start_cluster: StartCluster) -> None:
    """Segments are opened all the while, for which sockets leave descriptors; a member that comes back catches up."""
    cluster = start_cluster(cluster={**SMALL_SEGMENTS, **PATIENT}, prefixes=with_files(64))
    leader = cluster.await_leader()
    assert "of max_sessions = 4096 sessions and 1 of max_subscribers = 32" in cluster.logs(leader)
    with ExitStack() as stack, Writer(cluster.ingress_endpoints) as writer:
        writer.write(100)
        opened = open_many(stack, cluster, CLIENTS)
        assert 2 <= opened < CLIENTS, opened
        writer.write(3000)
        assert cluster.await_leader() == leader
        cluster.restart(next(member_id for member_id in cluster.member_ids if member_id != leader))
        demand_agreement(cluster, [writer])
    cluster.check_running()


def test_too_few_descriptors_are_one_line(tmp_path: Path) -> None:
    with LocalCluster(LEDGER, root=tmp_path / "cluster", member_count=1, prefixes=with_files(40)) as cluster:
        cluster.start()
        assert cluster.wait(0) != 0
        (line,) = [line for line in cluster.logs(0).splitlines() if "limit of open files" in line]
        assert "raise it to" in line and "max_sessions = 4096" in line
        assert "Traceback" not in cluster.logs(0)


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    """Shared memory of so many MiB for all members of the clusters that are started."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tmpfs")
    folder = tmp_path / "shm"
    folder.mkdir()

    def mount_it(size_mib: int) -> Path:
        run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder)])
        monkeypatch.setattr(launcher, "SHARED_MEMORY", folder)
        return folder

    yield mount_it
    with suppress(AssertionError):
        run(["umount", "-l", str(folder)])


def fill(folder: Path) -> Path:
    """Takes all that is left of a file system; removing the file gives it back."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


@pytest.mark.root
def test_too_little_shared_memory_is_one_line_with_what_helps(mount: Mount, tmp_path: Path) -> None:
    mount(16)
    with LocalCluster(LEDGER, root=tmp_path / "cluster", member_count=1) as cluster:
        cluster.start()
        assert cluster.wait(0) != 0
        (line,) = [line for line in cluster.logs(0).splitlines() if "not enough shared memory" in line]
        assert "--shm-size" in line and 'log_term_length = "2m"' in line
        assert "Traceback" not in cluster.logs(0)


@pytest.mark.root
def test_shared_memory_that_is_full_ends_no_node(mount: Mount, start_cluster: StartCluster) -> None:
    """Sessions are refused and streams wait while there is none left; then everything goes on."""
    folder = mount(MEMORY_MIB)
    cluster = start_cluster(cluster={"log_term_length": "4m", "session_timeout": "60s"})
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(cluster.ingress_endpoints))
        writer.write(100)
        demand_agreement(cluster, [writer])
        fill(folder)
        open_many(stack, cluster, CLIENTS)
        filler = fill(folder)
        with suppress(OrdoError, AssertionError, TimeoutError):
            writer.write(4000, timeout_s=10.0)
        cluster.check_running()
        filler.unlink()
    await_session(cluster)
    with Writer(cluster.ingress_endpoints, writer_id=2, reopens=True) as another:
        another.write(2000)
    cluster.check_running()


def await_session(cluster: LocalCluster) -> None:
    def open_one() -> bool | None:
        with ExitStack() as stack:
            return True if open_many(stack, cluster, 1) else None

    await_value(open_one, "a session once there is room")
