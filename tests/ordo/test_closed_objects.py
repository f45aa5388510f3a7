"""What is opened and closed: used after its end, ended by another thread or by a signal, and used in a child.

Each case is a program of its own (tests/ordo/closing.py): what these do wrong ends the process by a signal, or never.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from ordo.cluster.client.session import ClusterClient
from tests.clusters import ready_cluster
from tests.forks import run_program
from tests.ordo import async_closing
from tests.ordo.closables import CASES
from tests.thorough import few_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
ITERATED = ("log_reader", "feed_reader", "consumer", "shared_consumer", "replay_stream", "persistent_subscription")
CLEAR = ("closed", "session is over")
"""What the error after the end says."""


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    service, root = "tests.cluster.integration.feed_service:Publisher", tmp_path_factory.mktemp("cluster")
    with ready_cluster(service, member_count=1, root=root, service_mode="inline", sync="none") as cluster:
        with ClusterClient(cluster.ingress_endpoints) as client:
            for _ in range(100):
                client.request(b"1")
        yield cluster.ingress_endpoints[0]


def run(*arguments: str, program: str = "closing") -> list[str]:
    """The lines that the program prints; it ends in good order."""
    with tempfile.TemporaryDirectory(prefix="ordo-test-") as folder:  # what a program leaves goes with it
        done = run_program(f"tests.ordo.{program}", arguments, 150, TMPDIR=folder)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout.splitlines()


def is_clear(line: str, name: str) -> bool:
    """The loop ended, or one error says that the object is closed."""
    return (line == "ended" and name in ITERATED) or any(text in line for text in CLEAR)


def delays_ms(count: int) -> list[str]:
    """Moments at which something is ended while it is in use; one program starts once for all of them."""
    return [str(50 + 7 * number) for number in range(count)]


@pytest.mark.parametrize("name", CASES)
def test_what_is_closed_says_so(endpoint: str, name: str) -> None:
    lines = run("after", name, endpoint)
    assert len(lines) == 2 and all(is_clear(line, name) for line in lines), lines


@pytest.mark.parametrize("times", few_of([4, 10], [4]))
@pytest.mark.parametrize("name", CASES)
def test_another_thread_may_close(endpoint: str, name: str, times: int) -> None:
    lines = run("thread", name, endpoint, *delays_ms(times))
    assert len(lines) == times and all(is_clear(line, name) for line in lines), lines


@pytest.mark.parametrize("name", CASES)
def test_the_handler_of_a_signal_may_close(endpoint: str, name: str) -> None:
    lines = run("signal", name, endpoint, *delays_ms(3))
    assert len(lines) == 3 and all(is_clear(line, name) for line in lines), lines


@pytest.mark.parametrize("name", CASES)
def test_a_child_made_by_fork_is_refused_and_leaves_the_parent_alone(endpoint: str, name: str) -> None:
    assert run("fork", name, endpoint) == ["ended"]


@pytest.mark.parametrize("how", ["thread", "signal"])
@pytest.mark.parametrize("name", async_closing.CASES)
def test_an_object_for_asyncio_is_closed_by_its_loop(endpoint: str, name: str, how: str) -> None:
    lines = run(how, name, endpoint, program="async_closing")
    assert len(lines) == 1 and (lines == ["ended"] or any(text in lines[0] for text in (*CLEAR, "not open"))), lines


@pytest.mark.parametrize("name", async_closing.CASES)
def test_a_child_is_refused_an_object_for_asyncio(endpoint: str, name: str) -> None:
    assert run("fork", name, endpoint, program="async_closing") == ["ended"]
