"""Workers that are forked from a program that has something open: pools, preloading servers."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ordo.cluster.client.requests.journal import Journal, JournalFile
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster
from ordo.runtime.errors import ForkedError, RequestOutcome
from ordo.runtime.io.storage import FileStorage
from tests.clusters import ready_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
CHILD_STATUS = 3
ROOT = Path(__file__).parents[2]
opened: ClusterClient


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    service, root = "tests.cluster.integration.feed_service:Publisher", tmp_path_factory.mktemp("cluster")
    with ready_cluster(service, member_count=1, root=root, service_mode="inline", sync="none") as cluster:
        yield cluster


def pay(_: int) -> str:
    """The work of a worker of a pool."""
    try:
        opened.request(b"payment")
    except ForkedError as error:
        assert error.outcome is RequestOutcome.NOT_EXECUTED
        return error.message
    return "paid"


def test_workers_of_a_pool_are_refused_and_the_parents_requests_count_once(cluster: LocalCluster) -> None:
    global opened
    with ClusterClient(cluster.ingress_endpoints) as opened:
        before = int(opened.request(b"1").payload)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            told = pool.map(pay, range(4), 1)
        assert all(f"opened in process {os.getpid()}" in one for one in told), told
        assert int(opened.request(b"2").payload) == before + 1


def pay_with_its_own(_: int) -> bytes:
    payload: bytes = globals()["client"].request(b"payment").payload
    return payload


def test_workers_that_open_their_own_as_the_page_has_it_are_served(cluster: LocalCluster) -> None:
    page = (ROOT / "docs" / "CLIENT.md").read_text()
    snippet = page.partition("Open the client in the worker:\n\n```python\n")[2].partition("```")[0]
    with ClusterClient(cluster.ingress_endpoints) as parent:
        before = int(parent.request(b"1").payload)
        globals()["endpoints"] = cluster.ingress_endpoints
        exec(snippet, globals())
        with globals()["pool"] as pool:
            answers = sorted(int(one) for one in pool.map(pay_with_its_own, range(8), 1))
        assert answers == list(range(before + 1, before + 9))


def test_a_child_that_forks_while_the_session_is_kept_by_a_thread(cluster: LocalCluster) -> None:
    """The keeper runs every few milliseconds, so that some of the forks find it inside the transport."""
    settings = ClientSettings(keep_alive_interval_s=0.001)
    with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:

        def use_and_close() -> None:
            with pytest.raises(ForkedError):
                client.request(b"1")
            with pytest.raises(ForkedError):
                client.poll()
            client.close()

        for _ in range(20):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    use_and_close()
                    status = CHILD_STATUS
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CHILD_STATUS
        client.request(b"2")


class Child:
    """A child made by fork that does its work, says so, and lives until the block ends."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def __enter__(self) -> None:
        said, saying = os.pipe()
        waiting, self._let_go = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(self._let_go)
                self._work()
                os.write(saying, b"1")
                os.read(waiting, 1)
                status = CHILD_STATUS
            finally:
                os._exit(status)
        os.close(saying)
        os.close(waiting)
        assert os.read(said, 1) == b"1"
        os.close(said)

    def __exit__(self, *_: object) -> None:
        os.close(self._let_go)
        assert os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1]) == CHILD_STATUS


def test_a_child_neither_writes_the_parents_journal_nor_keeps_its_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "requests")
    file = JournalFile(path)
    journal = Journal(file)
    journal.recover(b"i" * 16, 1)
    size = os.path.getsize(path)

    def write() -> None:
        calls: list[Callable[[], object]] = [lambda: journal.add_request(1, b"x"), lambda: file.replace(b""), file.sync]
        for call in calls:
            with pytest.raises(ForkedError):
                call()

    with Child(write):
        journal.close()
        JournalFile(path).close()
    assert os.path.getsize(path) == size


def test_a_child_does_not_keep_the_lock_of_a_folder(tmp_path: Path) -> None:
    lock = FileStorage().lock_directory(str(tmp_path))
    with Child(lock.close):
        assert (tmp_path / "LOCK").read_text().strip() == str(os.getpid()), "the child has not touched the file"
        lock.close()
        FileStorage().lock_directory(str(tmp_path)).close()


def test_a_child_leaves_the_nodes_of_the_parent_alone(cluster: LocalCluster) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(ForkedError):
                cluster.stop(0)
            cluster.__exit__(None, None, None)
            status = CHILD_STATUS
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CHILD_STATUS
    assert cluster.is_running(0) and cluster.root.is_dir()
