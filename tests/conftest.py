"""What all tests share: folders in shared memory, free ports, and markers that depend on the machine."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.forks import FORKS, SWITCH
from tests.patience import factor, patient
from tests.tier_files import TierFiles, are_named, are_whole
from tests.tiers import KEPT, Guard, tier_of

SHARED_DATA = Path(os.environ.get("ORDO_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

settings.register_profile("ordo", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("ordo")


def _missing() -> dict[str, str]:
    """Marker -> why tests that carry it cannot run on this machine."""
    found = {}
    if not SHARED_DATA.is_dir():
        found["shared_data"] = f"{SHARED_DATA} is not there; ORDO_SHARED_DATA names another folder"
    if shutil.which("java") is None:
        found["spark"] = "Java is not installed"
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nft") is None:
        found["root"] = "needs root, iproute2 and nftables"
    return found


TIER_FILES = TierFiles()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_left_out = TIER_FILES.lacks(collection_path, config.getoption("markexpr"))
    return True if is_left_out and not are_named(collection_path, config.args, config.invocation_params.dir) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = _missing()
    tiers = [_tier(item) for item in items]
    if are_whole(config.args, vars(config.option)):
        TIER_FILES.note((item.path, tier) for item, tier in zip(items, tiers, strict=True))
    for item, tier in zip(items, tiers, strict=True):
        for marker, reason in missing.items():
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
        item.add_marker(tier)


def pytest_configure(config: pytest.Config) -> None:
    """Measures the patience of the run before workers and their tests make this machine busy.

    What a process compiled is kept for the next, whatever the shell says: tests start thousands of Pythons.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a shell's job in the background, and of all it starts
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    factor(config.getoption("numprocesses", None) or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.lanes import OneSpark

    return OneSpark(config, log)


def pytest_sessionfinish() -> None:
    shared = sys.modules.get("tests.shared_clusters")
    if shared is not None:
        shared.SHARED.close()
    FORKS.close()


def pytest_report_header() -> str:
    return f"patience: {factor():.1f}"


def pytest_collection_finish() -> None:
    KEPT.save()
    launcher = sys.modules.get("ordo.deploy.launcher")
    if launcher is not None:
        launcher.LocalCluster.spawn = FORKS.spawn


def _tier(item: pytest.Item) -> str:
    inner = item if item.parent is None or not isinstance(item.parent, pytest.Class) else item.parent
    name = getattr(inner, "originalname", None) or inner.name
    return tier_of(item.path, (name, *getattr(item, "fixturenames", ())), {mark.name for mark in item.iter_markers()})


GUARD = Guard()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stretches the limits of a test before pytest-timeout reads its own, as far as the machine is busy then."""
    GUARD.started.clear()
    said = item.get_closest_marker("timeout")
    limit_s = said.args[0] if said is not None else item.config.getoption("timeout")
    if limit_s:
        item.add_marker(pytest.mark.timeout(patient(limit_s)), append=False)
    launcher = sys.modules.get("ordo.deploy.launcher")
    if launcher is not None:
        launcher.LocalCluster.patience = patient(1.0)
    shared = sys.modules.get("tests.shared_clusters")
    if shared is not None and "lend_cluster" not in getattr(item, "fixturenames", ()):
        shared.SHARED.drop_idle()
    return (yield)


@pytest.fixture(autouse=True)
def _no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test of the deterministic tier that started a process: its tier was read wrong, see tests/tiers.py."""
    yield
    if request.node.get_closest_marker("deterministic") is not None:
        assert not GUARD.started, "a test of the deterministic tier starts a process: name what it uses in REAL"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of shared test data; tests that use it carry the marker `shared_data`."""
    return SHARED_DATA


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A test that sets logs up writes them to a stream that is closed after it."""
    yield
    structlog = sys.modules.get("structlog")
    if structlog is not None:
        structlog.reset_defaults()


@pytest.fixture
def executed_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has nodes and commands executed, as users have them, and not forked (tests/forks.py)."""
    monkeypatch.setenv(SWITCH, "no")


@pytest.fixture
def shm_path() -> Iterator[Path]:
    """A new folder in shared memory (or the temporary folder), removed after the test."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="ordo-test-", dir=base))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def free_port() -> Iterator[Callable[[], int]]:
    """Gives a UDP port of 127.0.0.1 that nothing holds, another one on each call, and to no other test meanwhile.

    It is none of those that the kernel gives to whoever asks for any: one of these may be gone before it is bound.
    """
    from ordo.deploy.launcher import PORTS_PER_MEMBER, find_ports, release_ports

    reserved: list[int] = []
    given: list[int] = []

    def take() -> int:
        if not given:
            reserved.extend(find_ports(1))
            given.extend(range(reserved[-1], reserved[-1] + PORTS_PER_MEMBER))
        return given.pop()

    yield take
    release_ports(reserved)
