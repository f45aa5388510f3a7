"""A cluster whose datagrams are encrypted: it works as any other, and strangers neither read it nor get in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ordo.cli import run
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.wire.streams import CONSENSUS_STREAM_ID
from ordo.deploy.launcher import PORTS_PER_MEMBER, LocalCluster
from ordo.runtime.errors import OrdoError
from ordo.transport.client.client_transport import ClientTransport
from ordo.transport.driver.frames.system_counters import REFUSED_TYPE_ID
from ordo.transport.secure.settings import Encryption
from tests.background import in_background
from tests.cluster.integration.agreement import await_that, demand_agreement
from tests.cluster.integration.conftest import StartCluster, start_cluster
from tests.cluster.integration.writer import Writer
from tests.simulation.network import write_pcap

if TYPE_CHECKING:
    from tests.simulation.network import Packet

__all__ = ["start_cluster"]
MARK = b"OS\xf1"
PADDING_BYTES = 200
UDP = 17
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="capturing needs root")
NEEDS_TSHARK = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def ports_of(cluster: LocalCluster) -> set[int]:
    firsts = [int(endpoint.rpartition(":")[2]) for endpoint in cluster.ingress_endpoints.values()]
    return {first + index for first in firsts for index in range(PORTS_PER_MEMBER)}


@contextmanager
def captured(ports: set[int]) -> Iterator[list[Packet]]:
    """The UDP datagrams on loopback that come from or go to these ports; needs root."""
    found: list[Packet] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)) as raw:
        raw.bind(("lo", 0x0800))
        raw.settimeout(0.1)

        def listen(ended: threading.Event) -> None:
            while not ended.is_set():
                try:
                    packet = raw.recv(1 << 17)
                except TimeoutError:
                    continue
                udp = packet[(packet[0] & 15) * 4 :]
                source, destination = int.from_bytes(udp[:2], "big"), int.from_bytes(udp[2:4], "big")
                if packet[9] == UDP and {source, destination} & ports:
                    hosts = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
                    found.append((time.time_ns(), (hosts[0], source), (hosts[1], destination), udp[8:]))

        with in_background(listen):
            yield found


@NEEDS_ROOT
def test_what_the_network_sees(start_cluster: StartCluster) -> None:
    """A request round trip, a failover and a catch-up: no datagram has a frame or a word of what was sent."""
    cluster = start_cluster(encrypted=True)
    keys = cluster.client_keys
    with (
        captured(ports_of(cluster)) as packets,
        Writer(cluster.ingress_endpoints, padding=PADDING_BYTES, **keys) as writer,
    ):
        writer.write(200)
        leader = cluster.await_leader()
        cluster.kill(leader)
        writer.write(200)
        cluster.restart(leader)
        writer.write(100)
        demand_agreement(cluster, [writer])
        assert writer.acked == 500
    datagrams = [packet[3] for packet in packets]
    assert sum(map(len, datagrams)) > writer.acked * PADDING_BYTES, "what was written did not pass here"
    assert all(data[1:4] == MARK for data in datagrams), "some are not encrypted"
    assert all(b"\0" * 24 not in data[96:] for data in datagrams), "the entries' padding can be read"


AERON_TYPES = [f"aeron.{kind}.type" for kind in ("pad", "data", "heartbeat", "nak", "sm", "setup")]


def shown_by_tshark(path: Path, ports: set[int]) -> list[list[str]]:
    """Of each datagram of a capture: its Aeron frames' types, where it has any, and its payload in hexadecimal."""
    command = ["tshark", "-r", str(path), "-T", "fields"]
    for port in ports:
        command += ["-d", f"udp.port=={port},aeron"]
    for field in (*AERON_TYPES, "udp.payload"):
        command += ["-e", field]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return [line.split("\t") for line in out.splitlines()]


@NEEDS_ROOT
@NEEDS_TSHARK
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_what_wireshark_shows(
    start_cluster: StartCluster, tmp_path: Path, free_port: Callable[[], int], is_encrypted: bool
) -> None:
    """Told that all of it is Aeron's, tshark finds frames and messages, on all ways of a request and its answer; and
    none where they are encrypted."""
    cluster = start_cluster(encrypted=is_encrypted)
    egress_port = free_port()
    ports = ports_of(cluster) | {egress_port}
    egress_channel = f"aeron:udp?endpoint=127.0.0.1:{egress_port}"
    settings = {"egress_channel": egress_channel} | cluster.client_keys
    with captured(ports) as packets, Writer(cluster.ingress_endpoints, padding=200, **settings) as writer:
        message = writer.request(50)
        for _ in range(20):
            writer.write(5)
    write_pcap(tmp_path / "cluster.pcap", packets)
    rows = shown_by_tshark(tmp_path / "cluster.pcap", ports)
    assert len(rows) == len(packets) > 40
    assert any(packet[2][1] == egress_port for packet in packets), "no answer was captured"
    with_frames = sum(any(row[:-1]) for row in rows)
    assert with_frames == (0 if is_encrypted else len(rows))
    assert any(message.hex() in row[-1] for row in rows) == (not is_encrypted)


def connects(cluster: LocalCluster, **keys: Any) -> bool:
    settings = ClientSettings(connect_timeout_s=2, **keys)
    try:
        ClusterClient(cluster.ingress_endpoints, settings=settings).close()
    except OrdoError:
        return False
    return True


def test_strangers_do_not_get_in(start_cluster: StartCluster, tmp_path: Path) -> None:
    """Not without encryption, and not with a key that nobody trusts, until it is trusted, while the nodes run."""
    cluster = start_cluster(encrypted=True)
    own = str(tmp_path / "stranger.key")
    assert run(["keys", "new", own]) == 0
    trusted = cluster.client_keys["trusted_file"]
    with Writer(cluster.ingress_endpoints, **cluster.client_keys) as writer:
        writer.write(50)
        assert not connects(cluster)
        assert not connects(cluster, key_file=own, trusted_file=trusted)
        writer.write(50)
        demand_agreement(cluster, [writer])
        assert writer.sessions == 1
    for told in ("sends datagrams that are not encrypted", "which is not trusted there"):
        await_that(lambda words=told: any(words in cluster.logs(one) for one in cluster.member_ids), told)  # type: ignore[misc]
    with open(trusted, "a") as file:
        file.write((tmp_path / "stranger.key").read_text().splitlines()[1].removeprefix("# Public: ") + " friend\n")
    await_that(lambda: connects(cluster, key_file=own, trusted_file=trusted), "one whom the members trust now")
    cluster.check_running()


def handshakes_refused(cluster: LocalCluster, member_id: int) -> int:
    """What a member's driver counts of them."""
    counters = read_counters(cluster.aeron_dir(member_id))
    return sum(one.value for one in counters if one.type_id == REFUSED_TYPE_ID and "handshakes" in one.label)


def is_heard(cluster: LocalCluster, member_id: int, channel: str) -> bool:
    """Whether others have heard a member: what it says of its room for what they send moves their senders' limits."""

    def is_heard_by(other: int) -> bool:
        counters = read_counters(cluster.aeron_dir(other))
        return any(one.value > 0 for one in counters if one.label.startswith("snd-lmt") and channel in one.label)

    return all(is_heard_by(other) for other in cluster.member_ids if other != member_id)


def test_a_trusted_client_does_not_become_a_member_that_is_down(start_cluster: StartCluster) -> None:
    """It takes the address of a member that died; the others call there, and do not take its key for the member's,
    which they have heard there."""
    cluster = start_cluster(encrypted=True)
    leader = cluster.await_leader()
    follower = next(one for one in cluster.member_ids if one != leader)
    host, _, first = cluster.ingress_endpoints[follower].rpartition(":")
    channel = f"aeron:udp?endpoint={host}:{int(first) + 1}"
    await_that(lambda: is_heard(cluster, follower, channel), "a leader was elected, and not all have heard each other")
    with Writer(cluster.ingress_endpoints, **cluster.client_keys) as writer:
        writer.write(50)
        refused = handshakes_refused(cluster, leader)
        cluster.kill(follower)
        thief = ClientTransport.embedded(encryption=Encryption.chosen(**cluster.client_keys))
        try:
            stolen = thief.client.add_subscription(channel, CONSENSUS_STREAM_ID)

            def is_refused() -> bool:
                thief.drive()
                assert not stolen.images, "what members send to each other comes to a client"
                return handshakes_refused(cluster, leader) > refused

            await_that(is_refused, "no handshake was refused", timeout_s=10)
            told = "a key of another name was heard there lately"
            await_that(lambda: told in cluster.logs(leader), "the line that says so")
            writer.write(50)
        finally:
            thief.close()
        cluster.restart(follower)
        demand_agreement(cluster, [writer])
        assert writer.sessions == 1
