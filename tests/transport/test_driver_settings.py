"""Every setting of a driver does something: it is read, and those whose effect no other test shows are shown here."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from random import Random
from typing import Any

import pytest

from ordo.runtime.errors import DriverInUseError
from ordo.runtime.native.clock import VirtualClock
from ordo.runtime.native.memory import HeapMemoryProvider
from ordo.transport.driver.channels import directory
from ordo.transport.driver.channels.parameters import flow_control
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.flow.flow_control import FlowControl
from ordo.transport.driver.media_driver import MediaDriver
from ordo.transport.uri import ChannelUri
from tests.simulation.network import SimulatedNetwork
from tests.transport import driver_world
from tests.transport.driver_world import MS, S, World

A, B = "10.0.0.1", "10.0.0.2"
OF_PROGRAMS = {"file_access", "cpus_are_offsets"} | {
    f"{part}_{what}" for part in ("conductor", "sender", "receiver") for what in ("idle", "cpu")
}
"""Read where a driver has threads and files of its own (test_driver_threads.py, runtime/test_file_access.py)."""
SHOWN_BELOW = {
    "delete_directory_on_shutdown",
    "pid_is_local",
    "multicast_flow_control",
    "flow_control_group_tag",
    "flow_control_group_size_min",
    "multicast_retransmit_window_multiple",
}
SHOWN_ELSEWHERE = {
    "idle_park_max_ns": "test_driver_threads.py",
    "encryption_trusted_file": "test_encryption.py",
    "encryption_rekey_ns": "test_encryption.py",
    "termination_allowed": "peers/test_tools.py",
    "termination_token": "peers/test_tools.py",
}


def test_every_setting_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[str] = Counter()

    class Watched(MediaDriverSettings):
        def __getattribute__(self, name: str) -> Any:
            reads[name] += 1
            return super().__getattribute__(name)

    settings: dict[str, Any] = {"resolver_name": "both", "resolver_interface": "0.0.0.0:8050"}
    Watched(directory="/x", **settings)
    of_checks = dict(reads)
    reads.clear()
    monkeypatch.setattr(driver_world, "MediaDriverSettings", Watched)
    world = World(**settings)
    a, b = world.node(A), world.node(B)
    for _ in world.nodes:
        reads.subtract(of_checks)
    channel = f"aeron:udp?endpoint={B}:4000"
    b.client.add_subscription(channel, 10)
    a.client.add_subscription(f"aeron-spy:{channel}", 10)
    publication = a.client.add_publication(channel, 10)
    a.client.add_publication("aeron:ipc", 11)
    world.until(lambda: publication.is_connected)
    world.run(2 * S, 10 * MS)
    world.close()
    unread = {field.name for field in fields(MediaDriverSettings) if reads[field.name] <= 0}
    assert unread <= OF_PROGRAMS | SHOWN_BELOW | SHOWN_ELSEWHERE.keys()


def driver_in(
    memory: HeapMemoryProvider, network: SimulatedNetwork, clock: VirtualClock, **settings: Any
) -> MediaDriver:
    host = network.hosts.get(A) or network.host(A)
    return MediaDriver(MediaDriverSettings(directory="/sim/x", **settings), clock=clock, memory=memory, network=host)


@pytest.mark.parametrize("delete", [True, False])
def test_the_folder_goes_with_the_driver_or_stays(delete: bool) -> None:
    memory, clock = HeapMemoryProvider(), VirtualClock()
    driver = driver_in(memory, SimulatedNetwork(clock, Random(1)), clock, delete_directory_on_shutdown=delete)
    driver.on_start()
    assert memory.exists("/sim/x/cnc.dat")
    driver.on_close()
    assert memory.exists("/sim/x/cnc.dat") is not delete


def test_a_process_of_another_machine_counts_as_alive_until_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, clock = HeapMemoryProvider(), VirtualClock()
    network = SimulatedNetwork(clock, Random(1))
    monkeypatch.setattr(directory, "is_process_alive", lambda pid: False)
    driver_in(memory, network, clock, driver_timeout_ns=10 * S).on_start()
    clock.advance(5 * S)
    with pytest.raises(DriverInUseError, match="a media driver is running in /sim/x"):
        driver_in(memory, network, clock, driver_timeout_ns=10 * S, pid_is_local=False).on_start()
    clock.advance(6 * S)
    next_driver = driver_in(memory, network, clock, driver_timeout_ns=10 * S, pid_is_local=False)
    next_driver.on_start()
    last_driver = driver_in(memory, network, clock, pid_is_local=True)
    last_driver.on_start()
    last_driver.on_close()


def test_flow_control_of_groups_is_as_configured_where_the_channel_says_nothing() -> None:
    config = MediaDriverSettings(
        directory="/x",
        multicast_flow_control="tagged",
        flow_control_group_tag=7,
        flow_control_group_size_min=3,
        multicast_retransmit_window_multiple=9,
    )

    strategies = {FlowControl(name, receiver_timeout_ns=S).strategy: name for name in ("max", "min", "tagged")}

    def of(text: str) -> tuple[str, int, int, int]:
        found = flow_control(ChannelUri.parse(text), config, True)
        return strategies[found.strategy], found.group_tag, found.group_min_size, found.retransmit_window_multiple

    assert of("aeron:udp?endpoint=224.0.1.1:1") == ("tagged", 7, 3, 9)
    assert of("aeron:udp?endpoint=224.0.1.1:1|fc=min,g:/2") == ("min", 7, 2, 9)
    assert of("aeron:udp?endpoint=224.0.1.1:1|fc=tagged,g:5/1") == ("tagged", 5, 1, 9)


def test_a_group_by_its_configuration_waits_for_those_with_its_tag() -> None:
    world = World(multicast_flow_control="tagged", flow_control_group_tag=7, flow_control_group_size_min=1)
    a, b, c = (world.node(address) for address in (A, B, "10.0.0.3"))
    publication = a.client.add_exclusive_publication(f"aeron:udp?control-mode=manual|control={A}:3000", 10)
    for address in (B, "10.0.0.3"):
        a.client.add_destination(publication, f"aeron:udp?endpoint={address}:4000")
    other = b.client.add_subscription(f"aeron:udp?endpoint={B}:4000", 10)
    world.run(500 * MS, MS)
    assert other.images and not publication.is_connected
    c.client.add_subscription("aeron:udp?endpoint=10.0.0.3:4000|gtag=7", 10)
    world.until(lambda: publication.is_connected)
    world.close()
