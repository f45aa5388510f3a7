"""The scrubber: reads everything once, slowly, and names what is damaged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ordo.archive.archive import Archive
from ordo.archive.scrub import STEP_BYTES, Scrubber
from ordo.archive.segments.frames import reseal
from ordo.runtime.native.time_units import SECOND_NS
from tests.archive.model import checksum_of, read_frames, seal_of
from tests.archive.streams import Stream
from tests.archive.test_reader import flip
from tests.archive.test_recorder import frames_of, send_many

RATE = 1024 * 1024
HOUR_NS = 3600 * SECOND_NS


class Found:
    """What a scrubber told of."""

    def __init__(self, archive: Archive, interval_ns: int = HOUR_NS) -> None:
        self.places: list[tuple[int, int]] = []
        self.scrubber = Scrubber(archive, interval_ns, RATE, lambda found, at, _: self.places.append((found[0], at)))

    def run(self, now_ns: int, passes: int) -> int:
        """Works each millisecond until so many passes are over: the time then."""
        while self.scrubber.pass_count < passes:
            self.scrubber.work(now_ns)
            now_ns += 1_000_000
        return now_ns


def filled(archive: Archive, count: int, seed: int) -> int:
    """Records random messages: where the recording stops."""
    stream = Stream()
    recording = archive.record(stream.image)
    send_many(archive, stream, count, seed)
    archive.stop(recording)
    return int(recording.written_position)


def test_everything_is_read_once_an_interval_and_no_faster_than_the_rate(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    total = filled(archive, 200, 1) + filled(archive, 100, 2)
    assert total > 4 * STEP_BYTES
    found = Found(archive)
    end_ns = found.run(0, 1)
    assert found.scrubber.scrubbed_bytes == total
    assert found.places == []
    assert end_ns >= (total - STEP_BYTES) * SECOND_NS // RATE
    found.scrubber.work(HOUR_NS - 1)
    assert found.scrubber.scrubbed_bytes == total
    found.run(HOUR_NS, 2)
    assert found.scrubber.scrubbed_bytes == 2 * total


def test_damage_is_named_and_what_lies_behind_it_in_other_segments_is_read(
    open_archive: Callable[..., Archive],
) -> None:
    archive = open_archive()
    stop = filled(archive, 200, 1)
    frames = frames_of(archive, 0, stop)
    targets = [next(frame for frame in frames if frame.position >= base and frame.type) for base in (5000, 70000)]
    for target in targets:
        flip(Path(archive.directory, f"0-{target.position // 65536 * 65536}.rec"), target.position % 65536 + 5)
    found = Found(archive)
    now_ns = found.run(0, 1)
    assert found.places == [(0, target.position) for target in targets]
    assert (found.scrubber.found_count, found.scrubber.damaged_count()) == (2, 2)
    flip(Path(archive.directory, "0-0.rec"), targets[0].position + 5)
    found.places.clear()
    found.scrubber.look_again(0, targets[0].position)
    found.run(now_ns, 2)
    assert found.places == [(0, targets[1].position)]
    assert (found.scrubber.found_count, found.scrubber.mended_count, found.scrubber.damaged_count()) == (2, 1, 1)


def test_damage_that_is_deleted_is_neither_mended_nor_left(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    for seed in (1, 2):
        stop = filled(archive, 200, seed)
        target = next(frame for frame in frames_of(archive, seed - 1, stop) if frame.position > 5000 and frame.type)
        flip(Path(archive.directory, f"{seed - 1}-0.rec"), target.position + 5)
    found = Found(archive)
    found.run(0, 1)
    assert found.scrubber.damaged_count() == 2
    archive.purge(0)
    assert found.scrubber.damaged_count() == 1
    archive.purge_segments(1, 65536)
    assert (found.scrubber.found_count, found.scrubber.mended_count, found.scrubber.damaged_count()) == (2, 0, 0)


def test_progress_goes_from_0_to_1_once_a_pass(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    filled(archive, 200, 1)
    scrubber = Found(archive).scrubber
    assert scrubber.progress == 0
    seen: list[list[float]] = [[], []]
    for turn in (0, 1):
        now_ns = turn * HOUR_NS
        while scrubber.pass_count == turn:
            scrubber.work(now_ns)
            seen[turn].append(scrubber.progress)
            now_ns += 10_000_000
    for progress in seen:
        assert progress == sorted(progress)
        assert progress[0] < 0.5 and progress[-1] == 1


def test_an_active_recording_is_read_up_to_what_is_durable(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    stream = Stream()
    recording = archive.record(stream.image)
    send_many(archive, stream, 20)
    found = Found(archive)
    found.run(0, 1)
    assert found.scrubber.scrubbed_bytes == recording.durable_position
    assert found.places == []


def test_no_interval_is_never(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    filled(archive, 20, 1)
    found = Found(archive, 0)
    found.scrubber.work(HOUR_NS)
    assert found.scrubber.scrubbed_bytes == 0


def test_frames_of_another_stream_are_sealed_anew(open_archive: Callable[..., Archive]) -> None:
    archive = open_archive()
    stop = filled(archive, 40, 1)
    path = Path(archive.directory, "0-0.rec")
    end = min(stop, 65536)
    frames = bytearray(path.read_bytes()[:end])
    reseal(frames, 110)
    path.write_bytes(frames.ljust(65536, b"\0"))
    for frame in read_frames(archive.directory, 0, 0, end, 65536, 65536):
        assert frame.stream_id == 110
        if frame.type:
            assert frame.checksum == checksum_of(frame)
        else:
            assert frame.reserved == seal_of(frame)
    with pytest.raises(ValueError, match="a frame of length=0 at 0 of 32 bytes"):
        reseal(bytearray(32), 110)
