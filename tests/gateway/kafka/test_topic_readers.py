"""What reads `ordo.log` for a door, over followers of the log that tests move on, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from ordo.archive.protocol.codes import ErrorCode
from ordo.follow.beginnings import AtSequence
from ordo.follow.entries import EntryKind, LogEntry
from ordo.follow.topics.feeds import FeedMessage
from ordo.gateway.kafka import log_topic
from ordo.gateway.kafka.log_topic import LOG_TOPIC
from ordo.gateway.kafka.record_calls import END_WAIT_S, RecordCalls
from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.topic_readers import BUDGET_S, IDLE_S, TOLD_S, NoReaderError, TopicReaders
from ordo.gateway.kafka.topic_table import TopicTable
from ordo.runtime.errors import ArchiveError
from tests.gateway.kafka.memory import SETTINGS, MemorySession, VirtualLoop, pass_time, run

OWN, OTHER = b"own", b"other"
DELETED = ArchiveError("deleted", code=ErrorCode.INVALID_POSITION)
REFUSED = ArchiveError("refused", code=ErrorCode.UNAUTHORISED_ACTION)
SOON_S = 1.0
NOT_LEADER = KafkaError.NOT_LEADER_OR_FOLLOWER


class Numbered:
    """A NumberedFollower that is told what it finds."""

    def __init__(self, begin: Any, credentials: bytes) -> None:
        self.begin = begin
        self.credentials = credentials
        self.position: int | None = None
        self.last_sequence: int | None = None
        self.oldest_position: int | None = None
        self.failure: ArchiveError | None = None
        self.is_closed = False
        self.spends_s = 0.0
        """If not 0, there is always more, and each duty cycle takes so long."""
        self.cycles = 0
        self._entries: list[LogEntry] = []
        self._found: tuple[int, int | None] | None = None

    @property
    def is_found(self) -> bool:
        return self.position is not None

    def find(self, position: int, last_sequence: int | None) -> None:
        """Have it find this in its next duty cycle."""
        self._found = position, last_sequence

    def receive(self, number: int) -> None:
        self._entries.append(LogEntry(100 * number, EntryKind.MESSAGE, 10 * number, 0, 7, b"value", sequence=number))

    def work(self, now_ns: int) -> int:
        if self.spends_s:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop.spend(self.spends_s)
            self.cycles += 1
            self.position = self.cycles
            return 1
        if self._found is None:
            return 0
        (self.position, self.last_sequence), self._found = self._found, None
        return 1

    def poll(self, handler: Callable[[LogEntry], object], limit: int) -> int:
        entries, self._entries = self._entries, []
        for one in entries:
            self.find(one.position, one.sequence)
            handler(one)
        return len(entries)

    def check_allowed(self) -> None:
        if self.failure is not None:
            raise self.failure

    def principal_of(self, session_id: int) -> bytes:
        return b""

    def close(self) -> None:
        self.is_closed = True


class Log:
    """All followers that the readers have begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.followers: list[Numbered] = []
        monkeypatch.setattr(log_topic, "NumberedFollower", self._follow)

    def _follow(self, client: Any, nodes: Any, begin: Any, silence_s: float, goes_live: bool) -> Numbered:
        self.followers.append(Numbered(begin, nodes[0].credentials))
        return self.followers[-1]

    async def begun(self, count: int) -> Numbered:
        """Return the follower of this number, from 1 on, once it is there."""
        while len(self.followers) < count:
            await pass_time(0.001)
        return self.followers[count - 1]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


@asynccontextmanager
async def at_work(settings: KafkaSettings = SETTINGS) -> AsyncIterator[TopicReaders]:
    readers = TopicReaders(settings)
    try:
        yield readers
    finally:
        readers.close()


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def give_up(readers: TopicReaders, number: int, credentials: bytes = OWN) -> None:
    """Read where nothing comes."""
    assert await readers.read(credentials, LOG_TOPIC, number, 1, now_s() + 0.05) == []


def test_the_first_message_since_time_0_is_waited_for(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            reading = asyncio.create_task(readers.first_since(OWN, LOG_TOPIC, 0, now_s() + SOON_S))
            follower = await log.begun(1)
            follower.find(0, 0)
            await pass_time(0.1)
            follower.receive(1)
            found = await reading
            assert found is not None and (found.number, found.timestamp) == (1, 10)
            assert follower.is_closed

    run(work())


def test_a_place_that_was_found_by_time_stays_for_those_who_read_on_there(log: Log) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with at_work() as readers:
            reading = asyncio.create_task(readers.first_since(OWN, LOG_TOPIC, 60, now_s() + SOON_S))
            follower = await log.begun(1)
            follower.receive(6)
            while not readers.covers(OWN, LOG_TOPIC, 6):
                loop.spend(0.005)
                await asyncio.sleep(0)
            assert [one.number for one in await readers.read(OWN, LOG_TOPIC, 6, 1, now_s() + SOON_S)] == [6]
            assert not reading.done()
            found = await reading
            assert found is not None and found.number == 6
            follower.receive(7)
            assert [one.number for one in await readers.read(OWN, LOG_TOPIC, 7, 1, now_s() + SOON_S)] == [7]
            assert len(log.followers) == 1 and not follower.is_closed

    run(work())


def test_a_place_that_was_found_by_time_stays_for_those_who_wait_there_for_the_end(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            reading = asyncio.create_task(readers.first_since(OWN, LOG_TOPIC, 60, now_s() + SOON_S))
            follower = await log.begun(1)
            asking = asyncio.create_task(readers.log_end(OWN, 9_000, now_s() + SOON_S, is_near=True))
            await pass_time(0.05)
            follower.receive(6)
            found = await reading
            assert found is not None and found.number == 6
            follower.find(9_000, 99)
            assert await asking == 100
            assert len(log.followers) == 1

    run(work())


def test_the_oldest_number_is_known_before_its_message_comes(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            reading = asyncio.create_task(readers.oldest(OWN, LOG_TOPIC, now_s() + SOON_S))
            (await log.begun(1)).find(4_096, 41)
            assert await reading == 42

    run(work())


def test_the_end_is_not_the_error_of_another_place(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            await give_up(readers, 5)
            log.followers[0].failure = DELETED
            await give_up(readers, 100)
            log.followers[1].find(5_000, 99)
            await pass_time(0.05)
            assert log.followers[0].is_closed
            assert await readers.log_end(OWN, 5_000, now_s() + SOON_S, is_near=True) == 100
            assert await readers.log_end(OWN, 9_000, now_s() + SOON_S, is_near=True) == 0
            with pytest.raises(ArchiveError, match="deleted"):
                await readers.read(OWN, LOG_TOPIC, 5, 1, now_s() + SOON_S)

    run(work())


def test_the_end_that_may_not_be_followed_is_refused(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            asking = asyncio.create_task(readers.log_end(OWN, 5_000, now_s() + SOON_S))
            (await log.begun(1)).failure = REFUSED
            with pytest.raises(ArchiveError, match="refused"):
                await asking
            assert log.followers[0].is_closed

    run(work())


def test_the_end_is_followed_from_the_end_again_where_what_lay_before_was_deleted(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            asking = asyncio.create_task(readers.log_end(OWN, 5_000, now_s() + SOON_S))
            (await log.begun(1)).failure = DELETED
            (await log.begun(2)).find(5_000, 99)
            assert await asking == 100
            assert log.followers[0].is_closed

    run(work())


def test_cursors_that_were_refused_make_room_before_healthy_ones(log: Log) -> None:
    async def work() -> None:
        async with at_work(KafkaSettings(endpoints=["127.0.0.1:9"], readers_max=3)) as readers:
            await give_up(readers, 100)
            for number in range(5, 15):
                await give_up(readers, number, OTHER)
                log.followers[-1].failure = REFUSED
                await pass_time(0.05)
            assert not log.followers[0].is_closed and readers.covers(OWN, LOG_TOPIC, 100)
            assert [one.is_closed for one in log.followers[1:]] == [True] * 10

    run(work())


def test_why_a_place_was_not_read_is_told_to_who_asks_again_for_a_while(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            for number in (5, 6):
                await give_up(readers, number)
                log.followers[-1].failure = REFUSED
            await pass_time(TOLD_S / 2)
            with pytest.raises(ArchiveError, match="refused"):
                await readers.read(OWN, LOG_TOPIC, 5, 1, now_s() + SOON_S)
            await pass_time(TOLD_S)
            await give_up(readers, 6)
            assert [one.begin for one in log.followers] == [AtSequence(5), AtSequence(6), AtSequence(6)]

    run(work())


def test_as_many_places_are_read_as_may_be(log: Log) -> None:
    async def work() -> None:
        async with at_work(KafkaSettings(endpoints=["127.0.0.1:9"], readers_max=1)) as readers:
            reading = asyncio.create_task(give_up(readers, 5))
            await log.begun(1)
            with pytest.raises(NoReaderError):
                await give_up(readers, 50)
            await reading

    run(work())


async def fetched(readers: TopicReaders, session: MemorySession, number: int, *others: str) -> Any:
    """Ask the door for records of the log, and of other topics; return what it tells of the log."""
    names = (*others, LOG_TOPIC)
    fields = {"partition": 0, "fetch_offset": number, "partition_max_bytes": 1 << 20}
    topics = [SimpleNamespace(topic=one, partitions=[SimpleNamespace(**fields)]) for one in names]
    request = SimpleNamespace(topics=topics, max_wait=timedelta(seconds=0.5), max_bytes=1 << 20)
    caller: Any = SimpleNamespace(session=session, hold=lambda room, length: None)
    values = await RecordCalls(SETTINGS, TopicTable(), readers).fetch(caller, request)
    found: Any = values["responses"]
    (partition,) = found[-1]["partitions"]
    return partition["error_code"], partition["high_watermark"]


class At(MemorySession):
    """Of a cluster whose log goes up to a position, which takes a while to be told."""

    credentials = OWN

    def __init__(self, position: int, query_s: float = 0.0) -> None:
        super().__init__()
        self.position = position
        self._query_s = query_s

    async def log_position(self) -> int:
        await pass_time(self._query_s)
        return self.position


def test_who_is_told_the_end_is_told_that_of_the_log_or_to_ask_again(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            await give_up(readers, 100)
            log.followers[0].find(5_000, 99)
            session = At(9_000)
            assert await fetched(readers, session, 100) == (NOT_LEADER, -1)
            asking = asyncio.create_task(fetched(readers, session, 100))
            await pass_time(0.7)
            log.followers[0].find(9_000, 99)
            assert await asking == (KafkaError.NONE, 100), "the end was found in time"

    run(work())


@pytest.mark.parametrize(("query_s", "told"), [(0.3, (KafkaError.NONE, 100)), (9.0, (NOT_LEADER, -1))])
def test_a_fetch_waits_a_bounded_time_for_the_cluster_to_tell_how_far_the_log_goes(
    log: Log, query_s: float, told: tuple[int, int]
) -> None:
    async def work() -> None:
        async with at_work() as readers:
            await give_up(readers, 100)
            log.followers[0].find(5_000, 99)
            begun_s = now_s()
            assert await fetched(readers, At(5_000, query_s), 100) == told
            assert now_s() <= begun_s + 0.5 + END_WAIT_S + 0.1

    run(work())


def test_a_fetch_that_another_topic_ends_tells_the_end_of_the_log_too(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            await give_up(readers, 100)
            log.followers[0].find(5_000, 99)
            for position, told in ((5_000, (KafkaError.NONE, 100)), (9_000, (NOT_LEADER, -1))):
                assert await fetched(readers, At(position), 100, "unknown") == told

    run(work())


def test_numbers_of_the_log_are_told_to_those_who_may_read_it(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            await give_up(readers, 100)
            log.followers[0].receive(100)
            await pass_time(0.05)
            assert readers.end_of(OWN, LOG_TOPIC) == 101
            assert readers.end_of(OTHER, LOG_TOPIC) == 0

    run(work())


def test_a_log_whose_messages_have_no_numbers_is_no_topic(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            asking = asyncio.create_task(fetched(readers, At(5_000), 100))
            (await log.begun(1)).find(5_000, None)
            assert await asking == (KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT, -1)

    run(work())


def test_the_end_is_followed_as_long_as_somebody_is_before_it(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            asking = asyncio.create_task(readers.log_end(OWN, 5_000, now_s() + SOON_S))
            end = await log.begun(1)
            end.find(5_000, 99)
            assert await asking == 100
            for number, is_closed in ((50, False), (100, True)):
                for _ in range(3):
                    readers.keep_end(OWN, number)
                    await pass_time(IDLE_S / 2)
                await pass_time(1.0)
                assert end.is_closed == is_closed
            assert readers.end_of(OWN, LOG_TOPIC) == 0

    run(work())


def test_others_have_a_turn_while_there_is_much_to_read_and_places_are_read_in_turns(log: Log) -> None:
    async def work() -> None:
        async with at_work() as readers:
            for number in (5, 500, 50_000):
                await give_up(readers, number)
            longest_s = BUDGET_S * 0.8
            for one in log.followers:
                one.spends_s = longest_s
            await pass_time(0.02)
            for _ in range(30):
                begun_s = now_s()
                await asyncio.sleep(0)
                assert now_s() - begun_s <= BUDGET_S + longest_s
            cycles = [one.cycles for one in log.followers]
            assert min(cycles) > 10 and max(cycles) - min(cycles) <= 1

    run(work())


def test_the_end_is_followed_without_making_messages_of_what_comes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    message_of = log_topic.message_of

    def note(entry: LogEntry, principal: bytes) -> FeedMessage:
        made.append(entry.sequence or 0)
        return message_of(entry, principal)

    async def work() -> None:
        async with at_work() as readers:
            asking = asyncio.create_task(readers.log_end(OWN, 5_000, now_s() + SOON_S))
            (await log.begun(1)).receive(50)
            assert await asking == 51 and made == []
            reading = asyncio.create_task(readers.read(OWN, LOG_TOPIC, 50, 1, now_s() + SOON_S))
            (await log.begun(2)).receive(50)
            assert [one.number for one in await reading] == made == [50]

    monkeypatch.setattr(log_topic, "message_of", note)
    run(work())
