"""Frames of a connection, however the bytes come; what is held of them, and who waits for what."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Coroutine, Generator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("kio", reason="needs the extra kafka")

from ordo.gateway.kafka import server
from ordo.gateway.kafka.server import KafkaDoor
from ordo.gateway.kafka.wire.frames import LANDING_BYTES, Frame, FrameStream
from ordo.gateway.kafka.wire.messages import Api
from ordo.runtime.errors import ConfigurationError
from tests.gateway.kafka.batches import request_of
from tests.gateway.kafka.memory import SETTINGS, MemoryTransport, framed, pass_time, run
from tests.gateway.test_life import make_certificates
from tests.patience import patient

LENGTHS = (0, 1, 3, 4, 5, LANDING_BYTES - 5, LANDING_BYTES - 4, LANDING_BYTES - 3, LANDING_BYTES, 3 * LANDING_BYTES)


async def frames_of(stream: FrameStream) -> list[bytes | None]:
    """Return all frames that come, and None for one that is cut."""
    frames: list[bytes | None] = []
    while (length := await stream.next_length()) is not None:
        frame = await stream.next_frame(length)
        frames.append(None if frame is None else bytes(frame))
    return frames


def cut(data: bytes, *, at: list[int]) -> list[bytes]:
    return [data[begin:end] for begin, end in zip([0, *at], [*at, len(data)], strict=True)]


@pytest.mark.parametrize("seed", range(40))
def test_frames_are_the_same_however_their_bytes_come(seed: int) -> None:
    chance = random.Random(seed)
    frames = [chance.randbytes(chance.choice(LENGTHS)) for _ in range(chance.randint(1, 12))]
    data = b"".join(map(framed, frames))
    pieces = cut(data, at=sorted(chance.choices(range(len(data) + 1), k=chance.choice((0, 3, 40)))))

    async def work() -> list[bytes | None]:
        client = MemoryTransport()
        found, _ = await asyncio.gather(frames_of(client.stream), client.send_all(*pieces))
        return found

    assert run(work()) == frames


@pytest.mark.parametrize("length", [10, 3 * LANDING_BYTES])
def test_a_client_that_goes_within_a_frame_leaves_none(length: int) -> None:
    async def work(kept: int) -> list[bytes | None]:
        client = MemoryTransport()
        found, _ = await asyncio.gather(
            frames_of(client.stream), client.send_all(framed(b"whole"), framed(bytes(length))[: 4 + kept])
        )
        return found

    for kept in (0, 1, length - 1):
        assert run(work(kept)) == [b"whole", None]
    assert run(work(-1)) == [b"whole"]


def test_no_more_is_taken_than_lands_while_nobody_asks() -> None:
    async def work() -> tuple[bool, int, int]:
        client, short, long = MemoryTransport(), framed(bytes(100)), framed(bytes(10 * LANDING_BYTES))
        sending = asyncio.create_task(client.send_all(*[short] * 1_000, long))
        await pass_time(60)
        is_held_up = not client.is_read.is_set()
        for _ in range(1_000):
            assert await client.stream.next_length() == 100
            await client.stream.next_frame(100)
        assert await client.stream.next_length() == 10 * LANDING_BYTES
        await pass_time(60)
        is_held_up = is_held_up and not sending.done() and not client.is_read.is_set()
        frame = await client.stream.next_frame(10 * LANDING_BYTES)
        assert frame is not None
        return is_held_up, len(frame), len(await frames_of(client.stream))

    assert run(work()) == (True, 10 * LANDING_BYTES, 0)


def test_a_frame_that_was_received_belongs_to_who_asked_for_it() -> None:
    """The stream holds nothing of it: a buffer that somebody else has a view of cannot grow."""

    async def work(is_cut: bool) -> None:
        client = MemoryTransport()
        frame = framed(bytes(3 * LANDING_BYTES))
        sending = asyncio.create_task(client.send_all(frame[:-1] if is_cut else frame))
        length = await client.stream.next_length()
        assert length is not None
        found = await client.stream.next_frame(length)
        await sending
        if is_cut:
            assert found is None and len(client.stream.get_buffer(-1)) == LANDING_BYTES
            return
        assert isinstance(found, memoryview)
        received = found.obj
        assert isinstance(received, bytearray)
        del found
        received += b"more"

    run(work(False))
    run(work(True))


class CountedSteps:
    """Counts how often who awaits a frame is made to wait."""

    def __init__(self, awaited: Coroutine[object, None, Frame | None]) -> None:
        self.count = 0
        self._awaited = awaited

    def __await__(self) -> Generator[object, None, None]:
        for waiting in self._awaited.__await__():
            self.count += 1
            yield waiting


def test_a_long_frame_wakes_nobody_before_it_is_whole() -> None:
    async def work() -> int:
        client, frame = MemoryTransport(), bytes(64 * LANDING_BYTES)
        await client.send(framed(frame)[:LANDING_BYTES])
        assert await client.stream.next_length() == len(frame)
        asked = CountedSteps(client.stream.next_frame(len(frame)))

        async def ask() -> None:
            await asked

        asking = asyncio.create_task(ask())
        for begin in range(LANDING_BYTES, len(frame) + 4, 10_000):
            await pass_time(1)
            await client.send(framed(frame)[begin : begin + 10_000])
        await asking
        return asked.count

    assert run(work()) == 1


@pytest.mark.parametrize("has_tls", [False, True])
def test_frames_come_over_a_socket_while_their_reader_takes_its_time(has_tls: bool, tmp_path: Path) -> None:
    """What was asked before the client closes its side is answered; TLS has no such half of an end."""
    chance = random.Random(7)
    frames = [chance.randbytes(chance.choice((10, 100, 70_000, 1 << 20))) for _ in range(40)]
    contexts = make_contexts(tmp_path) if has_tls else (None, None)
    connected: asyncio.Queue[FrameStream] = asyncio.Queue()

    async def read(stream: FrameStream) -> list[bytes | None]:
        found: list[bytes | None] = []
        while len(found) < len(frames) and (length := await stream.next_length()) is not None:
            frame = await stream.next_frame(length)
            found.append(None if frame is None else bytes(frame))
        assert has_tls or await stream.next_length() is None
        await stream.send(b"answer")
        stream.close()
        return found

    async def work() -> list[bytes | None]:
        loop = asyncio.get_running_loop()
        make = partial(FrameStream, connected.put_nowait)
        server = await loop.create_server(make, "127.0.0.1", 0, ssl=contexts[0])
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=contexts[1])
        reading = asyncio.create_task(read(await connected.get()))
        for one in frames:
            writer.write(framed(one))
            await writer.drain()
        if not has_tls:
            writer.write_eof()
        assert await reader.read() == b"answer"
        writer.close()
        server.close()
        return await reading

    assert asyncio.run(work()) == frames


def make_contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return TLS for a server and for a client that trusts it."""
    make_certificates(folder)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    return server, ssl.create_default_context(cafile=str(folder / "ca.pem"))


async def waits_for_room(client: MemoryTransport) -> asyncio.Task[None]:
    client.stream.pause_writing()
    sending = asyncio.create_task(client.stream.send(b"response"))
    await pass_time(1)
    assert not sending.done() and client.sent == b"response"
    return sending


def test_who_sends_waits_for_a_client_that_takes_nothing() -> None:
    async def work() -> None:
        client = MemoryTransport()
        sending = await waits_for_room(client)
        client.stream.resume_writing()
        await sending

    run(work())


def test_who_sends_is_told_that_the_client_is_gone() -> None:
    async def work() -> None:
        client = MemoryTransport()
        sending = await waits_for_room(client)
        client.stream.connection_lost(None)
        for one in (sending, client.stream.send(b"more")):
            with pytest.raises(ConnectionResetError, match="the client is gone"):
                await one
        assert client.sent == b"response" and await client.stream.next_length() is None

    run(work())


@pytest.mark.parametrize("turns", range(4, 9))
def test_a_client_that_comes_just_as_the_door_ends_is_let_go(turns: int) -> None:
    """The door cancelled the task of a connection before it had begun, and the socket stayed open."""

    async def work() -> bytes:
        door = KafkaDoor(replace(SETTINGS, listen="127.0.0.1:0"))
        await door.open()
        host, _, port = door.address.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await door.close()
            for _ in range(10):
                await asyncio.sleep(0)
            return client.recv(1)

    assert asyncio.run(work()) == b""


async def is_let_in(door: KafkaDoor, source: str, clients: ExitStack) -> bool:
    """Connect from an address, ask what the door can do, and return whether it answers."""
    host, _, port = door.address.rpartition(":")
    client = clients.enter_context(socket.create_connection((host, int(port)), source_address=(source, 0)))
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(client, framed(request_of(Api.API_VERSIONS, 0, 1)))
        return await loop.sock_recv(client, 1) != b""
    except ConnectionError:
        return False


def test_one_address_takes_half_of_the_connections_and_leaves_the_others_to_others() -> None:
    async def work() -> None:
        with ExitStack() as clients:
            door = KafkaDoor(replace(SETTINGS, listen="127.0.0.1:0", connections_max=4))
            async with door:
                first = ExitStack()
                assert [await is_let_in(door, "127.0.0.1", first) for _ in range(3)] == [True, True, False]
                assert [await is_let_in(door, "127.0.0.2", clients) for _ in range(3)] == [True, True, False]
                assert not await is_let_in(door, "127.0.0.3", clients), "all of them are taken"
                first.close()
                while not await is_let_in(door, "127.0.0.3", clients):
                    pass  # the door has not seen yet that they are gone

    asyncio.run(asyncio.wait_for(work(), patient(30)))


def test_how_many_connections_one_address_takes_can_be_said() -> None:
    async def work() -> list[bool]:
        settings = replace(SETTINGS, listen="127.0.0.1:0", connections_max=4, address_connections_max=3)
        with ExitStack() as clients:
            async with KafkaDoor(settings) as door:
                return [await is_let_in(door, "127.0.0.1", clients) for _ in range(4)]

    assert asyncio.run(asyncio.wait_for(work(), patient(30))) == [True, True, True, False]
    with pytest.raises(ConfigurationError, match="address_connections_max=-1: must be above 0, or 0 for half of all"):
        replace(SETTINGS, address_connections_max=-1)


def test_who_does_not_shake_hands_is_let_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Within the time that it has by itself, a minute, the test is over."""
    monkeypatch.setattr(server, "HANDSHAKE_TIMEOUT_S", 0.05)
    make_certificates(tmp_path)
    certificate, key = str(tmp_path / "server.pem"), str(tmp_path / "server.key")
    settings = replace(SETTINGS, listen="127.0.0.1:0", certificate=certificate, key=key)

    async def work() -> bytes:
        async with KafkaDoor(settings) as door:
            host, _, port = door.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                return await reader.read(1)
            finally:
                writer.close()

    assert asyncio.run(asyncio.wait_for(work(), patient(10))) == b""
