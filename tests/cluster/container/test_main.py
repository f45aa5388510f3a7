"""The container as a process of its own, beside a real driver and archive."""

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire import codecs, ordo_codecs
from ordo.cluster.wire.counters.counter_types import CounterType
from ordo.cluster.wire.counters.mark_file import HEADER_LENGTH_BYTES, read_mark_file
from ordo.runtime.agents.wake import ParkFlag, Waker
from ordo.runtime.exit_status import EXIT_STATUS_SERVICE
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import Counter
from ordo.runtime.native.error_log import read_errors
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.transport.client.client import TransportClient
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.streams.image import Header
from tests.patience import patient

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 20
SESSION_CHANNEL = "aeron:ipc?term-length=64k"


class Node:
    """Driver, archive and the counters of a consensus module, all in this thread."""

    service_position: Counter
    container_park_flag: Counter
    commit_position: Counter

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.aeron_dir = f"/dev/shm/ordo-test-{os.getpid()}-{directory.name}"
        self.clock = SystemClock()
        self.memory = FileMemoryProvider()
        config = MediaDriverSettings(
            directory=self.aeron_dir,
            delete_directory_on_start=True,
            counters_values_length=1 << 16,
            term_length=1 << 16,
            ipc_term_length=1 << 16,
        )
        self.driver = MediaDriver(config, clock=self.clock, memory=self.memory)
        self.driver.on_start()
        self.client = TransportClient(
            self.aeron_dir,
            clock=self.clock,
            memory=self.memory,
            invoker=lambda: self.driver.do_work(self.clock.now()),
        )
        self.archive = Archive(
            str(directory / "archive"),
            storage=FileStorage(open_lmdb),
            clock=self.clock,
            client=self.client,
            sync="none",
            segment_length_bytes=1 << 20,
            low_space_bytes=0,
        )
        self._record_log()
        self._add_streams()
        self.process: Any = None

    def _record_log(self) -> None:
        subscription = self.client.add_subscription("aeron:ipc?alias=log", 100)
        self.log = self.client.add_exclusive_publication(
            "aeron:ipc?term-length=1m|init-term-id=0|term-id=0|term-offset=0", 100
        )
        self.step()
        [image] = subscription.images
        self.recording = self.archive.record(image)

    def _add_streams(self) -> None:
        self.acks: list[Any] = []
        self.control = self.client.add_subscription("aeron:ipc?term-length=128k", 105)
        self.module = self.client.add_exclusive_publication("aeron:ipc?term-length=128k", 104)
        self.egress = self.client.add_subscription(SESSION_CHANNEL, 102)
        self.answers: list[bytes] = []
        for kind, value in (
            (CounterType.LEADER_TERM, 0),
            (CounterType.LOG_RECORDING, self.recording.recording_id),
            (CounterType.SERVICE_POSITION, 0),
            (CounterType.CONTAINER_PARK_FLAG, 0),
            (CounterType.COMMIT_POSITION, 0),
        ):
            counter = self.client.add_counter(int(kind), kind.name, bytes(4))
            counter.set(value)
            setattr(self, kind.name.lower(), counter)
        self.park_flag = ParkFlag(self.container_park_flag)
        self.waker = Waker(self.park_flag)

    def start(self, service: str = "tests.cluster.container.services:Echo", **options: Any) -> None:
        key = struct.pack("<qqqii", -1, 0, 0, 0, 0)
        self.client.add_counter(int(CounterType.RECOVERY_STATE), "recovery", key)
        self.process = subprocess.Popen(self.command(service), cwd=ROOT, stderr=subprocess.PIPE, text=True, **options)

    def command(self, service: str) -> list[str]:
        folders = ["--cluster-dir", str(self.directory), "--archive-dir", str(self.directory / "archive")]
        return [
            sys.executable,
            "-m",
            "ordo.cluster.container.main",
            *folders,
            "--aeron-dir",
            self.aeron_dir,
            "--service",
            service,
        ]

    def step(self) -> None:
        now_ns = self.clock.now()
        self.driver.do_work(now_ns)
        self.client.do_work(now_ns)
        self.archive.do_work(now_ns)

    def run(self, until: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while not until():
            assert time.monotonic() < deadline_s, "not reached in time"
            self.step()
            if not self.control.poll_messages(self._on_control, 10) + self.egress.poll_messages(self._on_answer, 10):
                self.driver.park(self.clock.now(), 1_000_000)

    def _on_control(self, message: bytes, _header: Header) -> None:
        found = ordo_codecs.decode_any(message)
        assert found is not None
        table, values = found
        if table is codecs.SERVICE_ACK:
            self.acks.append(values)

    def _on_answer(self, message: bytes, _header: Header) -> None:
        self.answers.append(message[32:])

    def append(self, record: bytes) -> int:
        while self.log.offer(record) < 0:
            self.step()
        position = self.log.position
        while self.recording.written_position < position:
            self.step()
        self.commit_position.set(position)
        self.waker.wake_parked()
        return position

    def open_session(self) -> None:
        self.append(
            codecs.NEW_LEADERSHIP_TERM_EVENT.encode(
                leadership_term_id=0,
                log_position=96,
                timestamp=1,
                term_base_log_position=0,
                leader_member_id=0,
                log_session_id=1,
                time_unit=0,
                app_version=1,
            )
        )
        self.append(
            codecs.SESSION_OPEN_EVENT.encode(
                leadership_term_id=0,
                correlation_id=1,
                cluster_session_id=1,
                timestamp=2,
                response_stream_id=102,
                response_channel=SESSION_CHANNEL,
            )
        )
        self.run(lambda: self.egress.is_connected)

    def message(self, payload: bytes) -> int:
        header = codecs.SESSION_MESSAGE_HEADER.encode(leadership_term_id=0, cluster_session_id=1, timestamp=3)
        return self.append(header + payload)

    def errors(self) -> list[Any]:
        memory = self.memory.open(f"{self.directory}/cluster-mark-service-0.dat", False)
        return read_errors(memory.slice(HEADER_LENGTH_BYTES, len(memory) - HEADER_LENGTH_BYTES, False))

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        if self.process is not None:
            self.process.wait()
            self.process.stderr.close()
        self.archive.close()
        self.client.close()
        self.driver.on_close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()


def test_it_starts_answers_and_ends_in_order(node: Node, tmp_path: Path) -> None:
    node.start()
    node.run(lambda: node.acks)
    assert (node.acks[0].ack_id, node.acks[0].log_position) == (0, 0)
    node.open_session()
    node.message(b"hello")
    node.message(b"mark " + str(tmp_path / "ended").encode())
    node.run(lambda: len(node.answers) == 2)
    assert node.answers[0] == b"hello"
    node.run(lambda: node.service_position.value == node.log.position)
    node.process.send_signal(signal.SIGTERM)
    node.run(lambda: node.process.poll() is not None)
    assert node.process.returncode == 0
    assert (tmp_path / "ended").read_text() == f"position={node.log.position}"
    mark = read_mark_file(node.memory, f"{tmp_path}/cluster-mark-service-0.dat")
    assert (mark.activity_timestamp, mark.pid, mark.service_name) == (-1, node.process.pid, "Echo")


def test_a_parked_container_is_woken(node: Node) -> None:
    node.start()
    node.run(lambda: node.acks)
    node.open_session()
    node.run(lambda: node.park_flag.parked)
    node.message(b"wake up")
    node.run(lambda: node.answers)
    assert node.answers == [b"wake up"]


def test_termination_by_the_consensus_module(node: Node) -> None:
    node.start()
    node.run(lambda: node.acks)
    node.open_session()
    position = node.message(b"last")
    node.module.offer(codecs.SERVICE_TERMINATION_POSITION.encode(log_position=position, ack_required=1))
    node.run(lambda: len(node.acks) == 2)
    assert node.acks[1].log_position == position
    node.run(lambda: node.process.poll() is not None)
    assert node.process.returncode == 0


def test_a_service_that_raises_ends_with_status_70_and_its_traceback_is_kept(node: Node) -> None:
    node.start()
    node.run(lambda: node.acks)
    node.open_session()
    position = node.message(b"raise")
    node.run(lambda: node.process.poll() is not None)
    assert node.process.returncode == EXIT_STATUS_SERVICE
    event, line = node.process.stderr.read().splitlines()
    assert "service.failed" in event and "services.py" in event and "Traceback" in event and "b'raise'" in event
    assert f"Echo raised in on_session_message at position {position}: ValueError: the order book is empty" in line
    [error] = node.errors()
    assert f"at position {position}" in error.text
    assert "in on_session_message" in error.text
    assert "services.py" in error.text


def test_a_node_that_stood_still_finds_its_container_again(node: Node) -> None:
    """The driver's heartbeat stops for longer than its timeout says; the container waits."""
    node.start()
    node.run(lambda: node.acks)
    node.open_session()
    node.driver.context.cnc.to_driver.consumer_heartbeat_ms = node.clock.epoch_ms() - 60_000
    with pytest.raises(subprocess.TimeoutExpired):
        node.process.wait(1.2)
    node.message(b"still there?")
    node.run(lambda: node.answers)


def test_it_dies_with_its_parent(node: Node, tmp_path: Path) -> None:
    """The parent starts it and is killed; the container ends by itself."""
    node.start()
    node.run(lambda: node.acks)
    node.process.kill()
    node.process.wait()
    node.acks.clear()
    pid_file = tmp_path / "pid"
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({node.command('tests.cluster.container.services:Echo')!r})\n"
        f"open({str(pid_file)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    try:
        node.run(lambda: node.acks and pid_file.exists() and pid_file.read_text())
    finally:
        parent.kill()
        parent.wait()
    pid = int(pid_file.read_text())
    node.run(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("service", "status", "words"),
    [
        ("tests.cluster.container.services", 2, "must be module:Class"),
        ("tests.cluster.container.services:Missing", 2, "no class 'Missing' derived from ClusteredService"),
        ("tests.cluster.container.services:NoService", 2, "no class 'NoService' derived from ClusteredService"),
        ("no_such_module:Service", 2, "there is no module 'no_such_module'"),
        (
            "tests.cluster.container.services:Unmade",
            EXIT_STATUS_SERVICE,
            "Unmade() raised RuntimeError: no configuration found",
        ),
    ],
)
def test_mistakes_are_one_line_and_a_status(tmp_path: Path, service: str, status: int, words: str) -> None:
    folders = ["--cluster-dir", str(tmp_path), "--archive-dir", str(tmp_path), "--aeron-dir", str(tmp_path / "none")]
    command = [sys.executable, "-m", "ordo.cluster.container.main", *folders, "--service", service]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patient(TIMEOUT_S), check=False)
    assert done.returncode == status
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_container_starts_without_what_reads_configurations() -> None:
    # Pydantic took 8 MiB and 80 ms of every container.
    script = "import sys, ordo.cluster.container.main; print('pydantic' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
