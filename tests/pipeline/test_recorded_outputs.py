"""Without a baseline a replay compares the outputs that are on record: what went to topics, and kept answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.wire import ordo_codecs
from ordo.pipeline.generate import RecordingBuilder, encode_record, new_term, session_message, session_open, var_data
from ordo.pipeline.jobs.replay import describe_status
from ordo.pipeline.jobs.replay import replay as replay_job
from ordo.pipeline.jobs.stretches import cut_log
from ordo.pipeline.jobs.verdict import compare_answers
from ordo.pipeline.replaying.replay_cluster import SnapshotState
from ordo.service_api.requests import IdentityState
from tests.pipeline.exchange import marker
from tests.pipeline.test_replay_verdict import Tally

HERE = "tests.pipeline.test_recorded_outputs"
TOPICS = ("count", "length")


class Publisher(Tally):
    """Publishes what it counts, and notes the sequence that it was given."""

    suffix = b""

    def on_start(self, cluster, snapshot):  # type: ignore[no-untyped-def]
        super().on_start(cluster, snapshot)  # type: ignore[no-untyped-call]
        self.cluster = cluster

    def on_session_message(self, session, timestamp, payload, header):  # type: ignore[no-untyped-def]
        super().on_session_message(session, timestamp, payload, header)  # type: ignore[no-untyped-call]
        for data in self.published(payload):
            assert self.cluster.publish("count", data) == 2 * self.count - 1 + (data[:1] == b"-")
        self.cluster.publish("length", b"%d" % len(payload))

    def published(self, payload: bytes) -> list[bytes]:
        return [b"+%d" % self.count, b"-%d" % self.count]


class PublishesOther(Publisher):
    """Its state is that of the Publisher; from the eighth message on it tells its subscribers something else."""

    def published(self, payload: bytes) -> list[bytes]:
        return [b"+%d" % self.count, b"-%d" % (self.count + (self.count >= 8))]


def write_log(folder: Path, first: int = 1, last: int = 12, is_cut: bool = False) -> tuple[str, list[int]]:
    """Twelve messages, snapshots behind the fourth and the eighth, and recordings of what messages `first` to `last`
    published; `is_cut`: the last one is there in part.
    """
    directory = str(folder / "node0" / "archive")
    feeds = {topic: RecordingBuilder(directory, stream_id=112, channel=f"aeron:ipc?alias=feed.{topic}|mtu=1408")
             for topic in TOPICS}  # fmt: skip
    ends: list[int] = []
    before = dict.fromkeys(TOPICS, (0, 0, 0))

    def publish(topic: str, index: int, number: int, data: bytes) -> None:
        sequence, position, previous = before[topic]
        head = ordo_codecs.FEED_MESSAGE.encode(
            sequence=sequence + 1, log_position=ends[-1], previous_log_position=previous, timestamp=0,
            message_index=index,
        )  # fmt: skip
        if first <= number <= last and not (is_cut and number == last and index):
            position = feeds[topic].append(head + data)
        before[topic] = (sequence + 1, position, ends[-1])

    with RecordingBuilder(directory) as log:
        log.append(new_term(0, 0, 5, 0, 1))
        log.append(session_open(0, 1, 1, 6, b"c", b"me"))
        for number in range(1, 13):
            ends.append(log.append(session_message(0, 1, 10 + number, b"%d" % number)))
            for index, (topic, data) in enumerate(
                [("count", b"+%d" % number), ("count", b"-%d" % number), ("length", b"%d" % len(b"%d" % number))]
            ):
                publish(topic, index, number, data)
            if number in (4, 8):
                with RecordingBuilder(directory, stream_id=106) as snapshot:
                    snapshot.append(marker(0, ends[-1]))
                    snapshot.append(encode_record(102, b"\1" + bytes(7) + b"f\0\0\0", var_data(b"c") + var_data(b"me")))
                    for topic in TOPICS:
                        sequence, position, previous = before[topic]
                        snapshot.append(ordo_codecs.FEED_STATE.encode(
                            sequence=sequence, position=position, log_position=previous, topic=topic
                        ))  # fmt: skip
                    snapshot.append(marker(2, ends[-1]))
                    snapshot.append(b"%d" % number)
    for feed in feeds.values():
        feed.finish()
    return directory, ends


def replay(directory: str, service: str) -> dict[str, Any]:
    return replay_job(None, directory, f"{HERE}:{service}")


def test_a_service_with_topics_is_replayed_from_its_snapshots(tmp_path: Path) -> None:
    """Its snapshots hold where the topics stand; they were once taken for unfinished ones."""
    directory, _ = write_log(tmp_path)
    facts = replay(directory, "Publisher")
    assert [result["verdict"] for result in facts["stretches"]] == ["agrees", "agrees", "not checked"], facts
    assert [result["published_compared"] for result in facts["stretches"]] == [12, 12, 12]
    assert "; 0 hashes of the state, 36 published messages and 0 answers were compared; what else" in describe_status(
        facts
    )


def test_what_is_published_otherwise_is_found_without_a_baseline(tmp_path: Path) -> None:
    directory, ends = write_log(tmp_path)
    facts = replay(directory, "PublishesOther")
    assert facts["status"] == "differs"
    first = facts["first_difference"]
    assert (first["position"], first["what"]) == (ends[7], "what was published to count")
    assert (bytes.fromhex(first["expected"]), bytes.fromhex(first["actual"])) == (b"-8", b"-9")


@pytest.mark.parametrize(("first", "last", "compared"), [(3, 12, 30), (6, 9, 12), (1, 7, 21), (13, 12, 0)])
def test_only_what_is_on_record_is_compared(tmp_path: Path, first: int, last: int, compared: int) -> None:
    """The node has deleted older parts, and may have stopped before it recorded everything."""
    directory, _ = write_log(tmp_path, first, last)
    facts = replay(directory, "Publisher")
    assert facts["status"] == "partly checked", facts["first_difference"]
    assert facts["outputs_compared"] == {"published": compared, "answers": 0, "hashes": 0}


def test_a_recording_may_end_within_what_a_record_published(tmp_path: Path) -> None:
    directory, _ = write_log(tmp_path, last=10, is_cut=True)
    facts = replay(directory, "Publisher")
    assert facts["status"] == "partly checked" and facts["outputs_compared"]["published"] == 28


def test_a_damaged_recording_of_a_topic_is_said(tmp_path: Path) -> None:
    directory, _ = write_log(tmp_path)
    with open(f"{directory}/0-0.rec", "r+b") as file:
        file.seek(40)
        file.write(b"\xff\xff")
    facts = replay(directory, "Publisher")
    assert facts["stretches"][0]["verdict"] == "not checked"
    assert "fault=checksum position=0" in facts["stretches"][0]["reason"]
    assert len(cut_log(directory).stretches) == 3


def with_answers(*answers: tuple[int, int, int, bytes], identity: bytes = bytes(16)) -> SnapshotState:
    identities = (IdentityState(identity, b"me", 7, 200, 9, 0, 12, list(answers)),)
    return SnapshotState(960, 0, 0, (), (), (), identities)


def test_answers_that_a_snapshot_keeps_are_compared() -> None:
    kept = with_answers((1, 500, 0, b"a"), (2, 600, 0, b"b"))
    assert compare_answers(kept, kept) == (2, None)
    assert compare_answers(kept, with_answers((2, 600, 0, b"b"), (3, 700, 0, b"c"))) == (1, None)
    assert compare_answers(kept, with_answers((1, 500, 0, b"x"), identity=bytes(15) + b"x")) == (0, None)
    count, first = compare_answers(kept, with_answers((1, 500, 0, b"a"), (2, 600, 1, b"no")))
    assert count == 2 and first is not None
    assert (first["position"], first["what"]) == (600, "answer to a request")
    assert (first["expected"], first["actual"]) == ("status 0: 62", "status 1: 6e6f")
