"""The counters-and-control file (cnc-and-driver-protocol.md §2)."""

import struct
from typing import Any

import pytest

from ordo.runtime.errors import ConfigurationError, TransportError
from ordo.runtime.native.memory import HeapMemoryProvider, MemoryProvider
from ordo.transport.control.cnc import CncFile, create_cnc, describe_version, map_cnc, try_open_cnc

PATH = "/driver/cnc.dat"
TIMEOUT_MS = 10_000


def make(provider: MemoryProvider, **changes: int) -> CncFile:
    arguments: dict[str, Any] = {"client_liveness_timeout_ns": 10**10, "start_timestamp_ms": 1000, "pid": 42}
    return create_cnc(provider, PATH, **{**arguments, **changes})


def header(cnc: CncFile) -> bytes:
    with memoryview(cnc.memory) as view:
        return bytes(view[:128])


def test_golden_header() -> None:
    cnc = make(HeapMemoryProvider(), counters_values_length=1 << 20, error_log_length=1 << 20)
    cnc.mark_ready(5)
    assert header(cnc) == struct.pack(
        "<iiiiiiqqqi76x", 0x200, (1 << 20) + 768, (1 << 20) + 128, 4 << 20, 1 << 20, 1 << 20, 10**10, 1000, 42, 4096
    )
    assert cnc.memory.length_bytes % 4096 == 0
    assert (cnc.version, cnc.pid, cnc.page_size, cnc.start_timestamp_ms) == (0x200, 42, 4096, 1000)


def test_buffers_follow_the_header_back_to_back() -> None:
    cnc = make(HeapMemoryProvider())
    start = cnc.memory.address
    lengths = [(1 << 20) + 768, (1 << 20) + 128, 4 << 20, 1 << 20]
    parts = [cnc.to_clients, cnc.counters_metadata, cnc.counters_values, cnc.error_log]
    assert [part.address - start for part in parts] == [128 + sum(lengths[: i + 1]) for i in range(4)]


def test_correlation_ids_start_at_one_for_clients() -> None:
    cnc = make(HeapMemoryProvider())
    cnc.mark_ready(5)
    assert cnc.to_driver.next_correlation_id() == 1


def test_a_file_is_not_opened_before_it_is_ready() -> None:
    provider = HeapMemoryProvider()
    assert try_open_cnc(provider, PATH, 1000, TIMEOUT_MS) is None
    cnc = make(provider)
    assert try_open_cnc(provider, PATH, 1000, TIMEOUT_MS) is None
    cnc.mark_ready(1000)
    opened = try_open_cnc(provider, PATH, 1000 + TIMEOUT_MS, TIMEOUT_MS)
    assert opened is not None
    assert opened.client_liveness_timeout_ns == 10**10
    cnc.transmitter().transmit(1, b"hello")
    assert opened.receiver().receive() == (1, b"hello")
    opened.close()


@pytest.mark.parametrize(("heartbeat_ms", "now_ms"), [(0, 5), (-1, 5), (1000, 1001 + TIMEOUT_MS)])
def test_a_dead_driver_is_not_connected_to(heartbeat_ms: int, now_ms: int) -> None:
    provider = HeapMemoryProvider()
    make(provider).mark_ready(heartbeat_ms)
    assert try_open_cnc(provider, PATH, now_ms, TIMEOUT_MS) is None
    tool = map_cnc(provider, PATH, writable=False)
    assert tool is not None
    assert tool.to_driver.consumer_heartbeat_ms == heartbeat_ms


def test_another_major_version_is_refused() -> None:
    provider = HeapMemoryProvider()
    cnc = make(provider)
    cnc.mark_ready(1)
    with memoryview(cnc.memory) as view:
        view[:4] = struct.pack("<i", 0x10000)
    with pytest.raises(TransportError, match=r"version 1\.0\.0, ours is 0\.2\.0"):
        map_cnc(provider, PATH)
    assert describe_version(0x203) == "0.2.3"


def test_an_incomplete_file_is_not_opened() -> None:
    provider = HeapMemoryProvider()
    memory = provider.create(PATH, 4096)
    with memoryview(memory) as view:
        view[:24] = struct.pack("<iiiiii", 0x200, 1 << 20, 1 << 20, 1 << 22, 1 << 20, 1 << 20)
    assert map_cnc(provider, PATH) is None


def test_oversized_buffers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="smaller buffers"):
        make(HeapMemoryProvider(), counters_values_length=500 << 20)


def test_append_label_is_bounded() -> None:
    cnc = make(HeapMemoryProvider())
    cnc.append_label(3, "client-heartbeat: id=3")
    cnc.append_label(3, " name=" + "n" * 400)
    with memoryview(cnc.counters_metadata) as view:
        record = bytes(view[3 * 512 : 4 * 512])
    assert struct.unpack_from("<i", record, 128) == (380,)
    assert record[132:512] == (b"client-heartbeat: id=3 name=" + b"n" * 400)[:380]
    with pytest.raises(TransportError, match="counter_id=-1"):
        cnc.append_label(-1, "x")
