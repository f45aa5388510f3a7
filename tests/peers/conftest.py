"""Java peers, Aeron's drivers, and drivers of Ordo for them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ordo.transport.client.client import TransportClient
from tests.peers.c_peer import c_programs, start_c_driver
from tests.peers.java_peer import AERON_VERSIONS, JavaPeers, class_path
from tests.peers.ordo_peer import OrdoDriver, connect
from tests.peers.peer_process import PeerMissingError, PeerProcess, go_without

OLDEST = AERON_VERSIONS[0]
OF_BOTH_RELEASES = frozenset(
    {
        "test_session_from_connect_to_close",
        "test_log_and_snapshots_are_copied_and_followed",
        "test_aerons_client_uses_an_archive_of_ordo",
        "test_udp_between_two_drivers",
    }
)
"""Tests that the thorough suite runs with the older release of Aeron; the others have it in `make nightly`."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave the older release to the thorough suite and to the night, unless a test asks for it alone."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    given = {name for name in ("java_class_path", "aeron_dir") if parameters.get(name) == OLDEST}
    asked = {name for mark in item.iter_markers("parametrize") for name in given if name in mark.args[0]}
    if given - asked:
        is_one_of_a_few = getattr(item, "originalname", "") in OF_BOTH_RELEASES
        item.add_marker(pytest.mark.thorough if is_one_of_a_few else pytest.mark.soak)


@pytest.fixture(scope="session", params=AERON_VERSIONS)
def java_class_path(request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Aeron's jar and the compiled programs; goes without where they cannot be had."""
    if shutil.which("java") is None:
        go_without(PeerMissingError("Java is not installed"))
    try:
        return class_path(request.param)
    except PeerMissingError as missing:
        go_without(missing)


@pytest.fixture
def java(java_class_path: tuple[Path, Path]) -> Iterator[JavaPeers]:
    """Starts Java programs; those that still run are killed after the test."""
    peers = JavaPeers(*java_class_path)
    yield peers
    peers.close()


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the C programs; goes without where they cannot be had."""
    try:
        return c_programs()
    except PeerMissingError as missing:
        go_without(missing)


@pytest.fixture
def start_driver(shm_path: Path) -> Iterator[Callable[..., OrdoDriver]]:
    """Starts drivers of Ordo in folders of their own, with these settings."""
    with ExitStack() as stack:

        def start(**settings: object) -> OrdoDriver:
            directory = shm_path / f"driver-{len(list(shm_path.iterdir()))}"
            return stack.enter_context(OrdoDriver(str(directory), **settings))

        yield start


@pytest.fixture(params=[*AERON_VERSIONS, "c"])
def aeron_dir(request: pytest.FixtureRequest, shm_path: Path) -> Iterator[str]:
    """The folder of a driver of Aeron that measures round trips: a release of the Java one, or the C one."""
    folder = shm_path / "aeron"
    with ExitStack() as stack:
        try:
            if request.param == "c":
                stack.enter_context(
                    start_c_driver(
                        request.getfixturevalue("programs"), folder, AERON_CUBICCONGESTIONCONTROL_MEASURERTT="true"
                    )
                )
            else:
                command = JavaPeers(*class_path(request.param)).command(
                    "io.aeron.driver.MediaDriver", aeron_dir=folder, aeron_CubicCongestionControl_measureRtt="true"
                )
                stack.enter_context(PeerProcess(command))
        except PeerMissingError as missing:
            go_without(missing)
        with connect(str(folder)) as client:  # it waits for the driver
            assert client.client_id > 0
        yield str(folder)


@pytest.fixture
def client(aeron_dir: str) -> Iterator[TransportClient]:
    """Of the driver of Aeron."""
    with connect(aeron_dir) as client:
        yield client
