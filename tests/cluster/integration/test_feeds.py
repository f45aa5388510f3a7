"""Feeds of real processes: each message once and in order, while the nodes that give them are killed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ordo.archive.client.client import ArchiveClient
from ordo.cluster.checks.requirements import FILES_OF_READER, MEMORY_OF_SUBSCRIBER_BYTES, SOCKETS_OF_READER
from ordo.cluster.client.async_client import AsyncClusterClient
from ordo.cluster.client.connection.endpoints import archive_endpoint
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.monitoring.counters import read_counters
from ordo.cluster.node.driver_bounds import COUNTERS_OF_READER
from ordo.cluster.wire.streams import is_feed
from ordo.deploy.launcher import LocalCluster
from ordo.follow.recordings.log_source import LogSource
from ordo.follow.topics.feeds import FeedMessage, FeedReader
from ordo.runtime.errors import ArchiveError
from tests.clusters import STEADY, ready_cluster
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
SERVICE = "tests.cluster.integration.feed_service:Publisher"
MODES = ("process", "inline")


@pytest.fixture(params=MODES)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    with ready_cluster(SERVICE, root=tmp_path, service_mode=request.param, heartbeat=STEADY) as cluster:
        yield cluster


def archives(cluster: LocalCluster) -> list[str]:
    return [archive_endpoint(one) for one in cluster.ingress_endpoints.values()]


def read(reader: FeedReader, found: list[FeedMessage], count: int, timeout_s: float = 30) -> None:
    """Reads until so many messages were found."""
    deadline_s = time.monotonic() + patient(timeout_s)
    while len(found) < count and time.monotonic() < deadline_s:
        reader.poll(found.append)
    assert len(found) >= count, f"{len(found)} of {count}: {reader.problem}"


def check_whole(found: list[FeedMessage]) -> None:
    """Nothing is missing, nothing comes twice, and the service counted as it numbered."""
    assert [one.sequence for one in found] == list(range(1, len(found) + 1))
    assert [int(one.payload.partition(b":")[0]) for one in found] == [one.sequence for one in found]
    assert sorted(found, key=lambda one: one.position) == found


def test_a_feed_goes_on_through_changes_of_nodes(cluster: LocalCluster) -> None:
    found: list[FeedMessage] = []
    with (
        ClusterClient(cluster.ingress_endpoints) as client,
        FeedReader(archives(cluster), "trades", from_position=0, silence_s=0.5) as reader,
    ):
        sent = 0
        for round_number in range(3):
            for _ in range(100):
                sent += 1
                answer = client.request(b"x" * (sent * 31 % 3000), timeout_s=30)
                assert answer.payload == b"%d" % sent
            read(reader, found, sent)
            assert found[-1].position == answer.log_position
            if round_number == 2:
                break
            source = reader.source or ""
            (serving,) = [one for one, at in enumerate(archives(cluster)) if source.endswith(at)]
            cluster.kill(serving)
            cluster.await_leader(60)
            cluster.restart(serving)
        assert len(found) == sent
        check_whole(found)
        books: list[FeedMessage] = []
        with FeedReader(archives(cluster), "books", from_position=found[149].position) as late:
            books += islice(late, 20)
            assert late.next_sequence == books[-1].sequence + 1
            read(late, books, 50)
        assert [int(one.payload) for one in books] == list(range(153, 301, 3))
        assert books[0].sequence == 51 and books[0].message_index == 1
        with client.subscribe("trades", from_sequence=200) as late:
            again: list[FeedMessage] = []
            read(late, again, 101)
        assert again == found[199:]


def test_many_messages_of_one_call_are_as_if_each_had_one(cluster: LocalCluster) -> None:
    found: list[FeedMessage] = []
    with ClusterClient(cluster.ingress_endpoints) as client:
        assert [client.request(one).payload for one in (b"many a b", b"many c d e")] == [b"1", b"3"]
        with client.subscribe("parts", from_position=0) as feed:
            read(feed, found, 5)
    assert [one.payload for one in found] == [b"a", b"b", b"c", b"d", b"e"]
    assert [one.sequence for one in found] == [1, 2, 3, 4, 5]
    assert [one.message_index for one in found] == [1, 2, 1, 2, 3], "trades had the first message of each record"
    assert found[0].position == found[1].position < found[2].position == found[4].position


def test_asyncio_reads_what_is_published_from_now_on(tmp_path: Path) -> None:
    async def run(endpoints: dict[int, str]) -> list[FeedMessage]:
        async with AsyncClusterClient(endpoints) as client:
            await client.request(b"before")
            async with client.subscribe("trades") as feed:
                taking = asyncio.ensure_future(anext(feed))
                while not feed.is_reading:
                    await asyncio.sleep(0.01)
                await client.request(b"one")
                await client.request(b"two")
                found = [await taking, await anext(feed)]
            async with client.subscribe("trades", from_sequence=9) as feed:
                with pytest.raises(ArchiveError, match=r"sequence 9 was never published: its last .* sequence 3"):
                    await anext(feed)
            end = (await client.request(b"three")).log_position
            async with client.subscribe("books", from_position=end + (1 << 20)) as feed:
                with pytest.raises(ArchiveError, match="is beyond the end of the log"):
                    await anext(feed)
            return found

    with ready_cluster(SERVICE, root=tmp_path, member_count=1) as cluster:
        found = asyncio.run(run(cluster.ingress_endpoints))
    assert [one.payload for one in found] == [b"2:one", b"3:two"]
    assert [one.sequence for one in found] == [2, 3]


def test_a_snapshot_and_the_retention_of_the_log_hold_for_feeds(tmp_path: Path) -> None:
    """A cluster that forgets its log forgets the feed of it, and goes on with the next number after a restart."""
    options = {"log_term_length": "64k", "segment_length": "256k"}
    tables: dict[str, Any] = {
        "snapshot": {"every_bytes": 300_000, "keep": 1},
        "retention": {"bytes": 0, "patience_seconds": 1},
    }
    with (
        ready_cluster(SERVICE, root=tmp_path, member_count=1, cluster=options, tables=tables) as cluster,
        ClusterClient(cluster.ingress_endpoints) as client,
    ):
        sent = 0
        deadline_s = time.monotonic() + patient(60)
        while not is_forgotten(cluster) and time.monotonic() < deadline_s:
            client.request_many([b"x" * 2000] * 20, timeout_s=30)
            sent += 20
        with pytest.raises(ArchiveError, match="were deleted at all nodes"):
            next(iter(client.subscribe("trades", from_position=0)))
        with client.subscribe("trades", from_position="oldest") as feed:
            found: list[FeedMessage] = []
            read(feed, found, 1)
            read(feed, found, sent - found[0].sequence + 1)
        assert found[0].sequence > 1
        cluster.kill(0)
        cluster.restart(0)
        cluster.await_leader(60)
        client.request(b"y", timeout_s=30)
        with client.subscribe("trades", from_sequence=found[-1].sequence) as feed:
            again: list[FeedMessage] = []
            read(feed, again, 2)
        assert again[0] == found[-1]
        assert again[1].sequence == sent + 1 and again[1].payload == b"%d:y" % (sent + 1)


def is_forgotten(cluster: LocalCluster) -> bool:
    """Whether the first message of the feed is gone."""
    with ArchiveClient.connect(archives(cluster)[0]) as archive:
        feeds = [one for one in archive.list_recordings() if is_feed(one.original_channel)]
        return any(one.start_position > 0 for one in feeds)


class Taken(NamedTuple):
    """What a node has taken of its machine."""

    memory_bytes: int
    descriptors: int
    counters: int

    @classmethod
    def by(cls, cluster: LocalCluster) -> Taken:
        folder = cluster.aeron_dir(0)
        mapped = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return cls(mapped, len(os.listdir(f"/proc/{cluster.pid(0)}/fd")), len(read_counters(folder)))


def test_subscribers_that_have_caught_up_share_one_stream(tmp_path: Path) -> None:
    """Six of a topic, and one of another, at a node that runs two replays of feeds."""
    with (
        LocalCluster(SERVICE, root=tmp_path, member_count=1, node={"max_subscribers": 2}) as cluster,
        ExitStack() as stack,
    ):
        cluster.await_leader(60)
        client = stack.enter_context(ClusterClient(cluster.ingress_endpoints))
        client.request_many([b"x" * 2000] * 10, timeout_s=30)
        feeds: list[FeedReader] = []
        found: list[list[FeedMessage]] = []

        def read_all(is_enough: Callable[[], bool]) -> None:
            deadline_s = time.monotonic() + patient(60)
            while not is_enough() and time.monotonic() < deadline_s:
                for feed, messages in zip(feeds, found, strict=True):
                    feed.poll(messages.append)
            assert is_enough(), [(feed.is_live, feed.next_sequence, feed.problem) for feed in feeds]

        for _ in range(6):
            feeds.append(stack.enter_context(client.subscribe("trades", from_position=0)))
            found.append([])
            read_all(lambda: feeds[-1].is_live)
        for count in range(20, 60, 10):
            client.request_many([b"y" * 3000] * 10, timeout_s=30)
            read_all(lambda: all(len(messages) == count for messages in found))  # noqa: B023
        assert all(feed.is_live for feed in feeds)
        for messages in found:
            check_whole(messages)
            assert messages == found[0]
        with client.subscribe("books", from_position=0) as other:
            read(other, [], 16)


def test_a_reader_takes_what_was_computed_and_one_too_many_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers with replays of their own, as they have them until they have caught up."""
    monkeypatch.setattr(LogSource, "_attend_live", lambda *_: None)
    with (
        ready_cluster(SERVICE, root=tmp_path, member_count=1, node={"max_subscribers": 2}) as cluster,
        ClusterClient(cluster.ingress_endpoints) as client,
    ):
        client.request(b"one")
        with client.subscribe("trades", from_position=0) as first:
            read(first, [], 1)
            before = Taken.by(cluster)
            with client.subscribe("trades", from_position=0) as second:
                read(second, [], 1)
                check_taken(before, Taken.by(cluster))
                demand_refusal(client, [first, second])


def check_taken(before: Taken, after: Taken) -> None:
    """One more reader came."""
    assert after.memory_bytes - before.memory_bytes == MEMORY_OF_SUBSCRIBER_BYTES
    assert after.counters - before.counters == COUNTERS_OF_READER
    descriptors = after.descriptors - before.descriptors
    assert SOCKETS_OF_READER < descriptors <= SOCKETS_OF_READER + FILES_OF_READER


def demand_refusal(client: ClusterClient, readers: list[FeedReader]) -> None:
    """A third reader is told why it is none."""
    with client.subscribe("trades") as refused:
        deadline_s = time.monotonic() + patient(20)
        while "max_subscribers" not in refused.problem and time.monotonic() < deadline_s:
            refused.poll(lambda _: None)
            for reader in readers:
                reader.keep_alive()
        assert "feeds have 2 readers at this node, as many as max_subscribers lets" in refused.problem
