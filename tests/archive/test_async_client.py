"""The asyncio client of an archive, against a served one; what it shares with the plain one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from ordo.archive.client import control_requests
from ordo.archive.client.async_client import AsyncArchiveClient
from ordo.archive.client.client import ArchiveClient
from ordo.archive.client.session import SignalEvent
from ordo.archive.protocol.codes import ErrorCode, RecordingSignal
from ordo.runtime.errors import ArchiveError, ArchiveTimeoutError
from tests.archive.served import STREAM, Served, record
from tests.snippets import texts_of

PAGE = (Path(__file__).parents[2] / "docs" / "ARCHIVE.md").read_text()
PROGRAMS = [text for text in texts_of(PAGE.split("## A stream from a position on")[0], "python") if "import" in text]


def methods(client: type) -> dict[str, tuple[str, str]]:
    """Arguments and docstring of each public method, without what it returns: one of the clients gives coroutines."""
    found = inspect.getmembers(client, lambda value: inspect.isfunction(value) or inspect.ismethod(value))
    return {
        name: (str(inspect.signature(value).replace(return_annotation="")), value.__doc__ or "")
        for name, value in found
        if not name.startswith("_")
    }


def test_both_clients_have_every_request() -> None:
    requests = {
        name
        for name, value in vars(control_requests).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and str(inspect.signature(value).return_annotation).startswith("Call[")
    }
    plain, awaited = methods(ArchiveClient), methods(AsyncArchiveClient)
    assert len(requests) == 26
    assert requests <= set(plain)
    assert {name: plain[name] for name in requests} == {name: awaited[name] for name in requests}
    assert set(plain) - {"now_ns", "park"} == set(awaited) - {"open"}
    assert inspect.iscoroutinefunction(AsyncArchiveClient.list_recordings)
    arguments = str(inspect.signature(ArchiveClient.stop_recording_by_id))
    assert arguments == "(self, /, recording_id: int) -> bool"


def test_the_programs_of_the_page_run(
    served: Served, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}"
    with served.connect() as client:
        record(client, channel, [b"one", b"two"], stream_id=7)
        stop = client.stop_position(0)
    plain, in_asyncio = PROGRAMS
    for program in (plain, in_asyncio):
        text = program.replace("10.0.0.1:8010", served.address).replace("aeron:udp?endpoint=10.0.0.1:9000", channel)
        assert text.count("127.0.0.1") == 2
        exec(text, {})
        assert capsys.readouterr().out == f"0 0 {stop}\n64 b'one'\n128 b'two'\n"
        with served.connect() as client:
            client.stop_recording(channel, 7)


def test_tasks_record_follow_and_ask_at_once(served: Served, free_port: Callable[[], int]) -> None:
    sent = [bytes([number % 256]) * (number % 3000) for number in range(300)]
    channel = f"aeron:udp?endpoint=127.0.0.1:{free_port()}|term-length=64k"
    started: asyncio.Queue[int] = asyncio.Queue()

    def on_signal(event: SignalEvent) -> None:
        if event.signal is RecordingSignal.START:
            started.put_nowait(event.recording_id)

    async def follow(archive: AsyncArchiveClient) -> list[bytes]:
        found = []
        async with archive.open_replay(await started.get()) as stream:
            async for message in stream:
                found.append(message.payload)
                assert stream.position == message.position
                if len(found) == len(sent):
                    return found
        raise AssertionError("the replay of a live recording ended")

    async def run() -> None:
        async with AsyncArchiveClient.connect(served.address, on_signal=on_signal) as archive:
            follower = asyncio.create_task(follow(archive))
            await archive.start_recording(channel, STREAM, auto_stop=True)
            publication = archive.transport.add_exclusive_publication(channel, STREAM)
            for message in sent:
                while publication.offer(message) <= 0:
                    await archive.work()
            assert await follower == sent
            listings = await asyncio.gather(
                *(archive.list_recordings() for _ in range(5)), archive.describe_recording(0)
            )
            assert [one.recording_id for listed in listings[:5] for one in listed] == [0] * 5  # type: ignore[union-attr]
            publication.close()
            await archive.stop_recording_by_id(0)
            assert [message.payload async for message in archive.replay(0)] == sent
            with pytest.raises(ArchiveError, match="is not a multiple of 32") as refused:
                await archive.truncate_recording(0, 33)
            assert refused.value.code == ErrorCode.INVALID_POSITION
            await archive.replicate(9, served.address)
            with pytest.raises(ArchiveError, match="9"):
                while True:
                    await archive.work()
            assert await archive.purge_recording(0) > 0
        with pytest.raises(ArchiveError, match="not open"):
            await archive.list_recordings()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_nobody_there(free_port: Callable[[], int]) -> None:
    async def run() -> None:
        async with AsyncArchiveClient.connect(f"127.0.0.1:{free_port()}", message_timeout_s=0.3):
            pass

    with pytest.raises(ArchiveTimeoutError, match="is it running"):
        asyncio.run(run())
