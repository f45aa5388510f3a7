"""A driver whose parts run on threads: every threading mode carries streams, takes commands meanwhile, and ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ordo.cli import run
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.error_log import read_errors
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.channels.settings_file import load_driver_settings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.driver.threads import DriverThreads
from tests.cluster.integration.agreement import await_that
from tests.patience import patient
from tests.transport.driver_world import Collector, Feeder

MODES = ("shared", "shared-network", "dedicated")
TIMEOUT_S = 60.0
MESSAGES = 5_000
CYCLE_COUNTERS = {"conductor": 26, "sender": 28, "receiver": 30}


@contextmanager
def running(folder: Path, is_refused: bool = False, **settings: Any) -> Iterator[MediaDriver]:
    """A driver with the threads of its mode. Its error log stays empty, unless commands are refused."""
    lengths = {"term_length": 1 << 18, "ipc_term_length": 1 << 18, "timer_interval_ns": 20_000_000}
    driver = MediaDriver(MediaDriverSettings(directory=str(folder / "driver"), **{**lengths, **settings}))
    driver.on_start()
    try:
        DriverThreads(driver).start()
        yield driver
        assert is_refused or not read_errors(driver.context.cnc.error_log)
    finally:
        driver.on_close()


def connect(driver: MediaDriver) -> TransportClient:
    return TransportClient(driver.directory, clock=SystemClock(), memory=FileMemoryProvider())


def exchange(client: TransportClient, feeders: list[Feeder], collectors: list[Collector]) -> None:
    """Until every collector has what its feeder offers."""
    deadline_s = time.monotonic() + patient(TIMEOUT_S)
    while any(len(one.messages) < len(feeder.messages) for feeder, one in zip(feeders, collectors, strict=True)):
        assert time.monotonic() < deadline_s, [len(one.messages) for one in collectors]
        for feeder in feeders:
            feeder.feed()
        if not sum(collector.poll(1000) for collector in collectors):
            client.do_work(time.monotonic_ns())
            client.idle()
    for feeder, one in zip(feeders, collectors, strict=True):
        assert one.messages == feeder.messages


@pytest.mark.parametrize("mode", MODES)
def test_streams_of_every_kind(mode: str, shm_path: Path, free_port: Callable[[], int]) -> None:
    channels = [
        f"aeron:udp?endpoint=127.0.0.1:{free_port()}",
        "aeron:ipc",
        f"aeron:udp?endpoint=239.255.77.1:{free_port()}|interface=127.0.0.1|ttl=1",
        f"aeron:udp?endpoint=[::1]:{free_port()}",
    ]
    with running(shm_path, threading_mode=mode) as driver, connect(driver) as client:
        collectors = [Collector(client.add_subscription(channel, 10)) for channel in channels]
        feeders = [Feeder(client.add_exclusive_publication(channel, 10), MESSAGES) for channel in channels]
        exchange(client, feeders, collectors)
        labels = {one.counter_id: one.label for one in driver.counters}
        for part, counter_id in CYCLE_COUNTERS.items():
            assert driver.system_counter(counter_id) > 0, f"the longest duty cycle of the {part}"
            assert labels[counter_id].endswith(mode.upper().replace("-", "_"))


def test_commands_while_streams_flow(shm_path: Path, free_port: Callable[[], int]) -> None:
    """Publications, subscriptions and destinations come and go beside a stream that loses nothing."""
    port, spare = free_port(), free_port()
    with running(shm_path, threading_mode="dedicated") as driver, connect(driver) as client:
        collector = Collector(client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{port}", 10))
        publication = client.add_exclusive_publication("aeron:udp?control-mode=manual", 10)
        client.add_destination(publication, f"aeron:udp?endpoint=127.0.0.1:{port}")
        feeder = Feeder(publication, 20 * MESSAGES)
        turns = 0
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while len(collector.messages) < len(feeder.messages):
            assert time.monotonic() < deadline_s, f"{len(collector.messages)} messages"
            feeder.feed()
            collector.poll(1000)
            if turns < 40:
                turns += 1
                other = client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{spare}", 20 + turns)
                beside = client.add_publication(f"aeron:udp?endpoint=127.0.0.1:{spare}", 20 + turns)
                client.add_destination(publication, f"aeron:udp?endpoint=127.0.0.1:{spare}")
                client.remove_destination(publication, f"aeron:udp?endpoint=127.0.0.1:{spare}")
                other.close()
                beside.close()
            client.do_work(time.monotonic_ns())
        assert collector.messages == feeder.messages and turns == 40


def test_clients_of_several_threads(shm_path: Path, free_port: Callable[[], int]) -> None:
    """The conductor is let in by busy parts, whoever else holds the interpreter."""
    with running(shm_path, threading_mode="dedicated", sender_idle="spin", receiver_idle="yield") as driver:
        failures: list[BaseException] = []

        def converse(port: int) -> None:
            try:
                with connect(driver) as client:
                    collector = Collector(client.add_subscription(f"aeron:udp?endpoint=127.0.0.1:{port}", 10))
                    publication = client.add_exclusive_publication(f"aeron:udp?endpoint=127.0.0.1:{port}", 10)
                    exchange(client, [Feeder(publication, MESSAGES)], [collector])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=converse, args=(free_port(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patient(TIMEOUT_S))
        assert not failures and not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("idle", ["park", "backoff", "sleep", "yield", "spin", "noop"])
def test_idle_strategies_and_cores(idle: str, shm_path: Path, free_port: Callable[[], int]) -> None:
    core = min(os.sched_getaffinity(0))
    settings: dict[str, Any] = {f"{part}_idle": idle for part in CYCLE_COUNTERS} | {
        f"{part}_cpu": core for part in CYCLE_COUNTERS
    }
    with running(shm_path, threading_mode="dedicated", **settings) as driver, connect(driver) as client:
        channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
        collector = Collector(client.add_subscription(channel, 10))
        exchange(client, [Feeder(client.add_publication(channel, 10), 200)], [collector])
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("ordo-")]
        assert {thread.name for thread in ours} == {"ordo-conductor", "ordo-sender", "ordo-receiver"}
        assert all(os.sched_getaffinity(thread.native_id or 0) == {core} for thread in ours)


@pytest.fixture
def last_core() -> Iterator[int]:
    """The only core that this process may use meanwhile, as in a cpuset whose first core is not core 0."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield max(before)
    os.sched_setaffinity(0, before)


def test_cores_are_counted_in_the_cpuset(last_core: int, shm_path: Path) -> None:
    """The first core of the cpuset is 0, whatever its number is; one beyond the last is refused."""
    settings: dict[str, Any] = {f"{part}_cpu": 0 for part in CYCLE_COUNTERS}
    with running(shm_path, threading_mode="dedicated", cpus_are_offsets=True, **settings) as driver:
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("ordo-")]
        assert len(ours) == 3 and driver.config.core("sender") == last_core
        assert all(os.sched_getaffinity(thread.native_id or 0) == {last_core} for thread in ours)
    with pytest.raises(ConfigurationError, match="sender_cpu=1, must be from 0 to 0, the cores that this process may"):
        MediaDriverSettings(str(shm_path), cpus_are_offsets=True, sender_cpu=1)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("threading_mode", "three"),
        ("sender_idle", "doze"),
        ("receiver_cpu", 4096),
        ("idle_park_max_ns", 10),
    ],
)
def test_a_wrong_setting_is_named(setting: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        MediaDriverSettings(directory="/x", **{setting: value})  # type: ignore[arg-type]


# --- the program ------------------------------------------------------------------------------------------------------


@contextmanager
def program(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`ordo driver` as a process, once clients can connect."""
    command = [sys.executable, "-c", "from ordo.cli import main; main()", "driver", "--dir", str(folder), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def patient_client(folder: Path) -> TransportClient:
    """A client of a driver that may have to start yet."""
    timeout_ns = round(patient(TIMEOUT_S) * 1e9)
    return TransportClient(str(folder), clock=SystemClock(), memory=FileMemoryProvider(), driver_timeout_ns=timeout_ns)


def shows_wrong_token(folder: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    assert run(["errors", "--dir", str(folder)]) == 0
    return "asked the driver to end with a wrong token" in capsys.readouterr().out


def test_the_program_serves_clients_until_it_is_told_to_end(
    shm_path: Path, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shm_path / "driver"
    with program(folder, "--threads", "dedicated", "--termination-token", "secret") as process:
        with patient_client(folder) as client:
            channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
            collector = Collector(client.add_subscription(channel, 10))
            exchange(client, [Feeder(client.add_publication(channel, 10), MESSAGES)], [collector])
        assert run(["driver", "pid", "--dir", str(folder)]) == 0
        assert int(capsys.readouterr().out) == process.pid
        assert run(["driver", "terminate", "--dir", str(folder), "--token", "guess", "--timeout", "0.3"]) == 1
        assert "lives 0.3 s after it was asked to end" in capsys.readouterr().err
        await_that(lambda: shows_wrong_token(folder, capsys), "the error of the wrong token")
        assert run(["driver", "terminate", "--dir", str(folder), "--token", "secret"]) == 0
        assert process.wait(patient(TIMEOUT_S)) == 0
        assert not folder.exists()


def test_the_program_ends_in_order_on_a_signal(shm_path: Path) -> None:
    folder = shm_path / "driver"
    with program(folder) as process:
        patient_client(folder).close()
        assert run(["driver", "terminate", "--dir", str(folder), "--timeout", "0.3"]) == 1, "nobody may, by default"
        process.send_signal(signal.SIGTERM)
        assert process.wait(patient(TIMEOUT_S)) == 0
    assert not folder.exists()


def test_a_signal_that_another_thread_gets_ends_the_program(shm_path: Path) -> None:
    folder = shm_path / "driver"
    with program(folder) as process:
        TransportClient(str(folder), clock=SystemClock(), memory=FileMemoryProvider()).close()
        threads = Path(f"/proc/{process.pid}/task")

        def others() -> list[int]:
            return [number for number in map(int, os.listdir(threads)) if number != process.pid]

        def sleeps() -> bool:
            return (threads / str(process.pid) / "stat").read_text().rpartition(") ")[2][0] == "S"

        await_that(lambda: others() and sleeps(), "the driver's thread works, and the main thread waits")
        (other, *_) = others()
        assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGTERM) == 0
        assert process.wait(patient(TIMEOUT_S)) == 0
    assert not folder.exists()


def test_a_driver_file(tmp_path: Path) -> None:
    path = tmp_path / "driver.toml"
    path.write_text(
        'directory = "/x"\nthreading_mode = "dedicated"\nclient_liveness_timeout = "5s"\nterm_length = "1m"\n'
        'mtu = 8192\nreceiver_window = "128k"\ntermination_token = "t"\nspies_simulate_connection = true\n'
    )
    config = load_driver_settings(path, directory="/y", sender_idle=None)
    assert (config.directory, config.threading_mode, config.sender_idle) == ("/y", "dedicated", "park")
    assert (config.client_liveness_timeout_ns, config.term_length, config.mtu) == (5_000_000_000, 1 << 20, 8192)
    assert (config.termination_token, config.spies_simulate_connection) == (b"t", True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("colour = 1", "colour: unknown key"),
        ('term_length = "big"', "term_length = 'big': allowed: bytes"),
        ('client_liveness_timeout = "5 parsecs"', "client_liveness_timeout = '5 parsecs'"),
        ("spies_simulate_connection = 1", "spies_simulate_connection = 1: must be bool"),
        ('max_resend = "many"', "max_resend = 'many': must be int"),
        ("threading_mode = true", "threading_mode = True: must be text"),
        ('threading_mode = "invoker"', "a program has threads of its own: shared, shared-network, dedicated"),
    ],
)
def test_mistakes_in_a_driver_file(line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "driver.toml"
    path.write_text(line + "\n")
    assert run(["driver", "--config", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_cores_of_the_command_line_fit_the_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the command line, or of the file where it says nothing."""
    path = tmp_path / "driver.toml"
    path.write_text('threading_mode = "shared-network"\n')
    assert run(["driver", "--threads", "dedicated", "--cpus", "0,1"]) == 2
    assert "must be 3 core numbers" in capsys.readouterr().err
    assert run(["driver", "--config", str(path), "--cpus", "0"]) == 2
    assert "must be 2 core numbers" in capsys.readouterr().err
    assert run(["driver", "--cpus", "0,1"]) == 2
    assert "must be 1 core numbers" in capsys.readouterr().err


LEFT_OPEN = """
import atexit, sys, threading

from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.driver.threads import DriverThreads

driver = MediaDriver(MediaDriverSettings(directory=sys.argv[1], threading_mode="dedicated"))
driver.on_start()
atexit.register(lambda: print([one.name for one in threading.enumerate() if one.name.startswith("ordo-")]))
DriverThreads(driver).start()
"""


def test_threads_of_a_driver_that_nobody_closed_end_before_the_interpreter(tmp_path: Path) -> None:
    """What is registered first runs last at exit: by then the threads are gone."""
    command = [sys.executable, "-c", LEFT_OPEN, str(tmp_path / "driver")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
