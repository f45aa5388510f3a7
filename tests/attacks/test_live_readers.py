"""One of the readers that share a node's live stream of the log is hostile: the others, and clients, do not notice.

Where datagrams are encrypted it has the key of a client. That nothing came of it is that the other readers have all of
the log, each entry once, that clients are answered, and that the leader is the same.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.archive.control.live_replays import LIVE_STREAM_ID
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.wire.streams import LOG_STREAM_ID
from ordo.deploy.launcher import LocalCluster
from ordo.follow.entries import LogEntry
from ordo.follow.reader import LogReader
from ordo.runtime.errors import ArchiveError
from ordo.runtime.native.clock import SystemClock
from ordo.transport.secure.keys import Keyring
from ordo.transport.secure.network import SecureNetwork
from ordo.transport.udp import UdpNetwork
from tests.attacks.test_archive import archives
from tests.cluster.integration.agreement import demand_agreement
from tests.cluster.integration.conftest import PATIENT, StartCluster, start_cluster
from tests.cluster.integration.writer import PARK_S, Writer
from tests.patience import patient
from tests.sequencer.receiver_frames import DATA, SEND_SETUP, SETUP, ReceiverFrames, asking_for_setup
from tests.thorough import few_of

__all__ = ["start_cluster"]
HOST = "127.0.0.1"
RETRANSMITTED_BYTES = "Retransmitted bytes"
LINGER_S = 0.01
"""So long a resend is remembered."""
TIMEOUT_S = 60.0


class Reader:
    """A reader that keeps what it got."""

    def __init__(self, address: str) -> None:
        self.entries: list[LogEntry] = []
        self._reader = LogReader([address])
        self.close = self._reader.close

    @property
    def is_live(self) -> bool:
        return self._reader.is_live

    def poll(self) -> None:
        while self._reader.poll(self.entries.append):
            pass


class Hostile:
    """A session with a node's archive, and a socket of its own where it has the live stream sent to."""

    def __init__(self, address: str, keys: dict[str, str]) -> None:
        self._archive = ArchiveClient.connect(address, message_timeout_s=patient(10))
        (log,) = self._archive.list_recordings(stream_id=LOG_STREAM_ID)
        self.recording_id = log.recording_id
        self._network: UdpNetwork | SecureNetwork = UdpNetwork()
        if keys:
            keyring = Keyring(keys["key_file"], keys["trusted_file"])
            self._network = SecureNetwork(UdpNetwork(), keyring, SystemClock())
        self._channel = self._network.open((HOST, 0))
        self._source = b""
        self._replay_id = -1
        self.frames: ReceiverFrames = None  # type: ignore[assignment]
        self.starts: list[int] = []
        """Where datagrams of the stream begin: only there it has something to send again."""
        self.received_bytes = 0

    def join(self, host: str = HOST) -> None:
        channel = f"aeron:udp?endpoint={host}:{self._channel.local_address[1]}|live=true"
        self._replay_id = self._archive.start_replay(self.recording_id, channel, LIVE_STREAM_ID)

    def leave(self) -> None:
        self._archive.stop_replay(self._replay_id)

    def work(self) -> None:
        """Takes what was sent to it, and says nothing."""
        self._archive.work()
        self._network.select_channels(0)
        while found := self._channel.receive_bytes():
            for datagram, source in found:
                self.received_bytes += len(datagram)
                if datagram[6] == SETUP:
                    self._source = source
                    self.frames = ReceiverFrames(datagram)
                elif datagram[6] == DATA and self.frames is not None:
                    self.starts.append(self.frames.position_of(datagram))
                elif datagram[6] == DATA and self._source != source:
                    self._source = source
                    self.say(asking_for_setup(datagram))

    def say(self, *datagrams: bytes) -> None:
        for datagram in datagrams:
            self._channel.send_bytes(datagram, self._source)

    def close(self) -> None:
        self._channel.close()
        self._network.close()
        self._archive.close()


@pytest.fixture(params=few_of([False, True], [False]), ids=["plain", "encrypted"])
def cluster(
    request: pytest.FixtureRequest, start_cluster: StartCluster, monkeypatch: pytest.MonkeyPatch
) -> LocalCluster:
    """Keys are in the environment. The leader stays on a busy machine, too: these tests are of its readers."""
    started = start_cluster(encrypted=request.param, cluster=PATIENT)
    for name, path in started.client_keys.items():
        monkeypatch.setenv(f"ORDO_{name.upper()}", str(path))
    return started


def follower_of(cluster: LocalCluster) -> int:
    leader = cluster.await_leader()
    return next(one for one in cluster.member_ids if one != leader)


def retransmitted(cluster: LocalCluster, member_id: int) -> int:
    """Bytes that a member's driver sent again."""
    return sum(one.value for one in read_counters(cluster.aeron_dir(member_id)) if one.label == RETRANSMITTED_BYTES)


class Scene:
    """A writer and two readers that are live at one node, and a hostile reader of the same stream."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.leader = cluster.await_leader()
        self.member_id = follower_of(cluster)
        self.address = archives(cluster)[self.member_id]
        self._stack = ExitStack()
        self.writer = self._stack.enter_context(Writer(cluster.ingress_endpoints, padding=1000, **cluster.client_keys))
        self.readers = [Reader(self.address) for _ in range(2)]
        for reader in self.readers:
            self._stack.callback(reader.close)
        self.hostile = Hostile(self.address, cluster.client_keys)
        self._stack.callback(self.hostile.close)

    def __enter__(self) -> Scene:
        self.writer.write(200)
        self.until(lambda: all(reader.is_live for reader in self.readers))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def step(self) -> None:
        """The readers read, and the hostile one takes what it is sent."""
        for reader in self.readers:
            reader.poll()
        self.hostile.work()

    def until(self, condition: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + patient(TIMEOUT_S)
        while not condition():
            assert time.monotonic() < deadline_s
            self.step()
            self.writer.run(lambda: True)

    def join(self) -> None:
        self.hostile.join()
        self.until(lambda: self.hostile.frames is not None and self.hostile.starts)

    def write(self, count: int = 20) -> None:
        self.writer.write(count)
        self.step()

    def _read_to_the_end(self, reader: LogReader) -> list[LogEntry]:
        """Read until nothing comes for a while; the hostile session, which lasts as it is worked for, goes on."""
        log: list[LogEntry] = []
        quiet_s = time.monotonic() + patient(1.0)
        while time.monotonic() < quiet_s:
            if reader.poll(log.append):
                quiet_s = time.monotonic() + patient(1.0)
            else:
                self.writer.client.park(PARK_S)
            self.step()
        return log

    def demand_all(self) -> None:
        """Both readers have the log, each entry once, as it is read from another node; nobody else was the leader."""
        demand_agreement(self.cluster, [self.writer])
        others = [one for index, one in enumerate(archives(self.cluster)) if index != self.member_id]
        with LogReader(others) as other:
            log = self._read_to_the_end(other)
        self.until(lambda: all(len(reader.entries) >= len(log) for reader in self.readers))
        for reader in self.readers:
            assert [one.position for one in reader.entries[: len(log)]] == [one.position for one in log]
        assert self.cluster.await_leader() == self.leader
        assert self.writer.sessions == 1
        self.cluster.check_running()


def test_silence_lies_and_coming_and_going(cluster: LocalCluster) -> None:
    with Scene(cluster) as scene:
        hostile = scene.hostile
        scene.join()
        for _ in range(10):
            scene.write()
        here = hostile.starts[-1]
        assert hostile.received_bytes > 10_000
        for turn, position in enumerate((-1, 0, 2**31, 2**62, 2**63 - 1, here + (1 << 24), here - (1 << 24)) * 5):
            for window in (-1, 0, 1 << 20, 2**31 - 1):
                hostile.say(hostile.frames.status(position, window, receiver_id=turn))
                hostile.say(hostile.frames.status(position, window, SEND_SETUP, turn))
            scene.write(5)
        for _ in range(30):
            hostile.leave()
            hostile.join()
            scene.step()
        scene.write(50)
        with pytest.raises(ArchiveError, match="goes to the host that asks for it"):
            hostile.join("127.0.0.2")
        scene.demand_all()


def test_asking_for_everything_again_all_the_time(cluster: LocalCluster) -> None:
    """A NAK of 28 bytes may ask for half a megabyte, and each time for another one: 680 MB were sent in a second."""
    with Scene(cluster) as scene:
        hostile = scene.hostile
        scene.join()
        for _ in range(30):
            scene.write(50)
        before, began_s, began = retransmitted(cluster, scene.member_id), time.monotonic(), hostile.starts[-1]
        for _ in range(40):
            starts = hostile.starts
            places = [starts[-1] - (1 << 20), starts[-1] - (1 << 19)]
            naks = [hostile.frames.nak(next(one for one in starts if one >= place), 1 << 19) for place in places]
            for _ in range(100):
                hostile.say(*naks)
            scene.write(5)
        lingered = 1 + (time.monotonic() - began_s) / LINGER_S
        again = retransmitted(cluster, scene.member_id) - before
        assert 0 < again <= 2 * (lingered * (1 << 19) + hostile.starts[-1] - began)
        scene.demand_all()


def test_a_reader_that_is_stopped_for_long(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its process stands still while the others go on; afterwards it has everything, too."""
    with Scene(cluster) as scene:
        command = [sys.executable, "-c", "from ordo.cli import main; main()", "log", scene.address]

        def lines() -> list[str]:
            return (tmp_path / "lines").read_text().splitlines()

        with open(tmp_path / "lines", "w") as file, subprocess.Popen(command, stdout=file) as stopped:
            try:
                scene.until(lambda: len(lines()) >= 200)
                time.sleep(1)
                stopped.send_signal(signal.SIGSTOP)
                for _ in range(20):
                    scene.write(200)
                assert all(reader.is_live for reader in scene.readers)
                scene.demand_all()
                stopped.send_signal(signal.SIGCONT)
                scene.until(lambda: len(lines()) >= len(scene.readers[0].entries))
                assert [int(line.split()[0]) for line in lines()] == [one.position for one in scene.readers[0].entries]
            finally:
                stopped.kill()
