"""Cubic receive windows: their size by losses and time, and streams whose receivers have one."""

from __future__ import annotations

import math

import pytest

from ordo.runtime.errors import ConfigurationError
from ordo.transport.driver.channels.settings import MediaDriverSettings
from ordo.transport.driver.conducting.context import TYPE_CONGESTION
from ordo.transport.driver.flow.congestion import ReceiveWindow
from tests.simulation.network import Faults
from tests.transport.driver_world import MS, SMALL_TERM, Collector, Feeder, World, transfer

A, B = "10.0.0.1", "10.0.0.2"
MTU = 1408
FRAMES = 40
S = 1_000_000_000
RTTM, SM = 6, 3


def cubic(**settings: object) -> ReceiveWindow:
    return ReceiveWindow(FRAMES * MTU, MTU, is_cubic=True, **settings)  # type: ignore[arg-type]


def frames_after(seconds: float, at_loss: float) -> int:
    """RFC 8312 in whole frames, cut off: C = 0.4, and a fifth is lost."""
    recovery = math.cbrt(at_loss * 0.2 / 0.4)
    return max(1, min(FRAMES, int(at_loss + math.trunc(0.4 * (seconds - recovery) ** 3))))


def test_a_static_window_is_always_the_whole_one() -> None:
    window = ReceiveWindow(1000, 100)
    assert not window.turn(True, True, 5)
    assert (window.length, window.length_max) == (1000, 1000)
    assert not window.probe(S), "only a cubic one measures"


def test_a_cubic_window_begins_small_and_grows_with_time() -> None:
    window = cubic()
    assert window.length == 10 * MTU
    assert not window.turn(False, True, 100_000), "not before the assumed round trip is over"
    assert window.length == 10 * MTU
    for at_ms in (1, 500, 1_000, 1_500, 2_000, 2_700, 4_000):
        window.turn(False, False, at_ms * MS)
        assert window.length == frames_after(at_ms / 1_000, FRAMES) * MTU
    assert window.length == window.length_max


def test_a_loss_takes_a_fifth_and_is_told_at_once() -> None:
    window = cubic()
    window.turn(False, False, 10 * S)
    assert window.turn(True, False, 10 * S + 1)
    assert window.length == 32 * MTU
    for later_ms in (1, 800, 1_600, 3_000):
        window.turn(False, False, 10 * S + 1 + later_ms * MS)
        assert window.length == frames_after(later_ms / 1_000, FRAMES) * MTU


@pytest.mark.parametrize("frames", range(2, 9))
def test_a_small_window_is_back_right_after_a_loss(frames: int) -> None:
    """Rounded down, each loss shrinks it, to one frame: behind that one nothing comes that shows the next loss."""
    window = ReceiveWindow(frames * MTU, MTU, is_cubic=True)
    window.turn(True, False, S)
    assert window.length == max(1, math.floor(frames * 0.8)) * MTU
    window.turn(False, False, S + MS)
    assert window.length == (frames if frames <= 5 else frames - 1) * MTU


def test_at_one_frame_every_step_of_the_readers_is_told() -> None:
    window = cubic()
    for turn in range(20):
        window.turn(True, False, turn)
    assert window.length == MTU
    assert window.turn(False, True, 21)
    assert not window.turn(False, False, 22)


def test_a_window_like_that_of_tcp_grows_by_round_trips() -> None:
    plain, friendly = cubic(), cubic(is_tcp_friendly=True, initial_rtt_ns=10 * MS)
    for window in (plain, friendly):
        window.turn(False, False, 10 * S)
        window.turn(True, False, 10 * S)
        window.turn(False, False, 10 * S + 100 * MS)
    assert plain.length == frames_after(0.1, FRAMES) * MTU
    assert friendly.length == math.floor(FRAMES * 0.8 + 3 * 0.2 / 1.8 * 10) * MTU > plain.length


def test_only_the_newest_probe_is_measured_and_once() -> None:
    window = cubic(measures_rtt=True, initial_rtt_ns=MS)
    assert window.probe(5 * MS)
    assert not window.probe(500 * MS), "one at a time"
    for forged in ((4 * MS, 0), (5 * MS, -1), (5 * MS, 3 * MS), (-(1 << 63), 0), (5 * MS, (1 << 63) - 1)):
        window.echo(*forged, 7 * MS)
        assert window.rtt_ns == MS
    window.echo(5 * MS, MS // 2, 7 * MS)
    assert window.rtt_ns == 2 * MS - MS // 2
    window.echo(5 * MS, 0, 100 * MS)
    assert window.rtt_ns == 2 * MS - MS // 2
    assert not window.probe(8 * MS), "four round trips between two"
    assert window.probe(9 * MS)
    assert window.probe(1009 * MS), "it was lost"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_cubic_stream_delivers_everything_through_losses(seed: int) -> None:
    world = World(seed, Faults(loss=0.05, delay_min_ns=100_000, delay_max_ns=300_000))
    sender, receiver = world.node(A), world.node(B)
    subscription = receiver.client.add_subscription(f"aeron:udp?endpoint={B}:4000|cc=cubic", 10)
    publication = sender.client.add_exclusive_publication(f"aeron:udp?endpoint={B}:4000|term-length={SMALL_TERM}", 10)
    feeder, collector = Feeder(publication, 3_000, 200), Collector(subscription)
    transfer(world, feeder, [collector])
    assert collector.messages == feeder.messages
    windows = {int.from_bytes(frame[24:28], "little") for frame in world.frames(SM) if not frame[5] & 0x80}
    assert len(windows) > 3 and all(MTU <= window <= SMALL_TERM // 2 for window in windows), windows
    assert all(window % MTU == 0 for window in windows)
    assert receiver.counter(TYPE_CONGESTION) == 100_000, "the round trip that is assumed"
    assert (sender.errors, receiver.errors) == ([], [])
    world.close()


def test_the_round_trip_is_measured_where_that_is_asked_for() -> None:
    world = World(7, Faults(delay_min_ns=400_000, delay_max_ns=400_000), step_ns=10_000)
    sender = world.node(A)
    receiver = world.node(B, congestion_control="cubic", cubic_measures_rtt=True)
    receiver.client.add_subscription(f"aeron:udp?endpoint={B}:4000", 10)
    sender.client.add_publication(f"aeron:udp?endpoint={B}:4000", 10)
    world.until(lambda: any(frame[5] == 0 for frame in world.frames(RTTM)))
    world.run(5 * MS)
    rtt_ns = receiver.counter(TYPE_CONGESTION)
    assert 800_000 <= rtt_ns <= 900_000
    world.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"congestion_control": "vegas"}, "congestion_control='vegas', must be static or cubic"),
        ({"cubic_initial_rtt_ns": 10}, "cubic_initial_rtt_ns=10, must be 1000 ns or more"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        MediaDriverSettings(directory="/sim/x", **settings)  # type: ignore[arg-type]
