"""What the floods of the benchmark consist of."""

from __future__ import annotations

import struct
from collections import defaultdict
from itertools import pairwise

import pytest

from benchmarks.attacks import KEPT_UP, KINDS, PORTS, port_of

DATAGRAMS = 2 * KEPT_UP
DATA, SETUP = 1, 5
IN_STREAMS = ["streams kept up", "connect requests", "queries", "fragments", "all of them"]


@pytest.mark.parametrize("kind", IN_STREAMS)
def test_what_belongs_to_a_stream_goes_to_the_port_of_its_set_up(kind: str) -> None:
    """A member takes no data of a stream without a SETUP: a flood that sent them to different ports attacked little."""
    ports = list(range(PORTS))
    streams: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for number in range(DATAGRAMS):
        datagram = KINDS[kind](number)
        frame_type = datagram[6]
        if frame_type in (SETUP, DATA):
            session_id, stream_id = struct.unpack_from("<ii", datagram, 12)
            streams[session_id, stream_id].append((frame_type, port_of(number, ports)))
    with_data = [frames for frames in streams.values() if (DATA, frames[0][1]) in frames]
    assert len(with_data) > DATAGRAMS // 20
    for frames in streams.values():
        assert frames[0][0] == SETUP
        assert all(one == other for (_, one), (_, other) in pairwise(frames))
    assert {frames[0][1] for frames in with_data} == set(ports)
