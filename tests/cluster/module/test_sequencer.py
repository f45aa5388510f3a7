"""The native half of the consensus module over a recorded log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.archive import Archive
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.wire import codecs
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import VirtualClock
from ordo.sequencer.hosts import ConsensusHost, IngressHost, LogHost, ServiceHost, SessionHost
from ordo.sequencer.sequencer import Sequencer
from ordo.sequencer.session_table import SessionTable
from tests.archive.streams import MTU, Sink, Stream
from tests.cluster.module.member import make_sequencer

FRAGMENT = MTU - 32


class Module(LogHost):
    """Takes the records that the sequencer found."""

    def __init__(self) -> None:
        self.records: list[tuple[int, bytes]] = []

    def on_record(self, position: int, record: bytes) -> None:
        self.records.append((position, record))


def record_of(filling: int, length: int) -> bytes:
    """A record that is no session message."""
    head = codecs.TIMER_EVENT.encode(leadership_term_id=1, correlation_id=filling, timestamp=0)
    return head + bytes([filling]) * (length - len(head))


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with_no_driver: Any = Sink()
    archive = Archive(
        str(tmp_path / "archive"),
        storage=FileStorage(open_lmdb),
        clock=VirtualClock(),
        client=with_no_driver,
        sync="none",
        segment_length_bytes=64 * 1024,
        low_space_bytes=0,
    )
    yield archive
    archive.close()


def append(archive: Archive, records: list[bytes], position: int = 0) -> list[int]:
    """Records more of the log: the position after each record."""
    stream = Stream(position=position)
    recording = archive.record(stream.image, recording_id=None if position == 0 else 0)
    ends = [stream.offer(record) for record in records]
    while recording.written_position < ends[-1]:
        archive.do_work(0)
    archive.stop(recording)
    return ends


@pytest.mark.parametrize("kept_fragments", [0, 1], ids=["whole", "in its middle"])
def test_a_message_cut_by_a_truncation_is_forgotten(archive: Archive, kept_fragments: int) -> None:
    """The log ends within a message of a dead leader; what the next leader puts there is read, not what was there."""
    short, long = record_of(1, 100), record_of(2, 3 * FRAGMENT)
    short_end, _ = append(archive, [short, long])
    archive.truncate(0, short_end + 2 * MTU)
    module = Module()
    sequencer = attached_sequencer(module)
    sequencer.open_log(archive.reader(0, 0), short_end + 2 * MTU, 0)
    sequencer.scan_to_end()
    assert [record for _, record in module.records] == [short]

    kept = short_end + kept_fragments * MTU
    archive.truncate(0, kept)
    sequencer.truncated(kept)
    others = [record_of(3, 200), record_of(4, 5000)]
    ends = append(archive, others, kept)
    sequencer.detach_recording(ends[-1])
    sequencer.scan_to_end()
    assert module.records[1:] == list(zip(ends, others, strict=True))
    assert sequencer.append_position == ends[-1]


def attached_sequencer(module: Module) -> Sequencer:
    made = make_sequencer()
    made.attach(module, IngressHost(), SessionHost(), ConsensusHost(), ServiceHost())
    return made


def test_a_session_table_under_many_sessions_that_come_and_go() -> None:
    """Removed sessions make room; ids that are no session's are found nowhere."""
    table = make_sequencer().sessions
    for number in range(1, 100_000):
        table.put(number, number)
        if number > 500:
            table.remove(number - 500)
    assert table.count == 500
    assert [table.get_activity(one) for one in (99_499, 99_500, 99_999)] == [None, 99_500, 99_999]
    assert all(table.get_activity(nobody) is None for nobody in (-1, -2, 0, -(2**63), 2**63 - 1))
    table.remove(-1)
    table.remove(-2)
    assert table.count == 500
    table.clear()
    assert (table.count, table.get_activity(99_999)) == (0, None)


def test_silent_sessions_are_found_in_order_of_their_ids() -> None:
    table = SessionTable()
    for session_id in range(3000, 0, -1):
        table.put(session_id, 100 + session_id % 3)
    assert table.find_silent(100) == []
    assert table.find_silent(101) == [one for one in range(1, 3001) if one % 3 == 0]
    table.remove(3)
    assert table.find_silent(101)[0] == 6
