"""One connection: frames in, requests carried out in order, responses out in order.

As with Kafka's brokers, a request is begun when those before it are answered. Produce requests alone are under way
together, up to PIPELINE_MAX of them, for they reach the log in the order in which they are begun.

A producer that a quota of the cluster holds back is not read while a request of it is under way, nor for a moment after
the answer, which it is told as its throttle time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Protocol

from ordo.gateway.kafka.broker_calls import api_versions
from ordo.gateway.kafka.caller import Caller
from ordo.gateway.kafka.service.orders import KafkaError
from ordo.gateway.kafka.sessions import ClusterSession, ClusterSessions
from ordo.gateway.kafka.settings import KafkaSettings
from ordo.gateway.kafka.wire.frames import Frame, FrameStream
from ordo.gateway.kafka.wire.messages import Api, Request, UnknownVersionError, decode_request, encode_response
from ordo.runtime.errors import DecodeError, SessionRejectedError

Values = Mapping[str, object]
PIPELINE_MAX = 16
FRAME_TIMEOUT_S = 30.0
"""So long the rest of a request may take, and a client to take a response."""
STRANGER_BYTES_MAX = 64 << 10
"""The longest request of a client that the cluster has not let in yet."""
THROTTLE_S_MAX = 0.1
"""The longest pause of a producer that is held back: what a quota saves up by default, so that none of it is lost."""
MECHANISM = "PLAIN"
OPEN_TO_ALL = (Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE)


class ByteBudget:
    """Bytes of requests that are held at a time, over all connections."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._freed = asyncio.Event()

    async def take(self, length: int) -> None:
        """Wait until this many bytes are left, and take them."""
        while length > self._left:
            self._freed.clear()
            await self._freed.wait()
        self._left -= length

    def give_back(self, length: int) -> None:
        """Give bytes back."""
        self._left += length
        self._freed.set()


class Under(NamedTuple):
    """A request under way."""

    task: asyncio.Task[bytes]
    length: int


class Calls(Protocol):
    """What carries requests out."""

    async def answer(self, caller: Caller, request: Request) -> Values:
        """Return the values of the response. Raises OrdoError where the connection has to end."""
        ...


class Connection:
    """Serves one client until it goes, or does what it must not."""

    def __init__(
        self,
        settings: KafkaSettings,
        sessions: ClusterSessions,
        budget: ByteBudget,
        calls: Calls,
        stream: FrameStream,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._budget = budget
        self._calls = calls
        self._stream = stream
        self._caller: Caller | None = None
        self._is_shaken = False
        self._resume_s = 0.0
        """Until then a producer that is held back is not read."""
        self._queue: asyncio.Queue[Under] = asyncio.Queue(PIPELINE_MAX)

    async def serve(self) -> None:
        """Serve until the end. Raises OrdoError, OSError or TimeoutError, which say why."""
        tasks = [asyncio.create_task(self._send()), asyncio.create_task(self._receive())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            while done:
                done.pop().result()
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            tasks.clear()  # an error has this frame: what is left here would keep all of it until a collection
            del one
            while not self._queue.empty():
                under = self._queue.get_nowait()
                under.task.cancel()
                self._budget.give_back(under.length)
            self._let_go()
            if self._caller is not None:
                self._sessions.give_back(self._caller.session)

    async def _receive(self) -> None:
        last: Api | None = None
        while (frame := await self._next_frame()) is not None:
            last = await self._take_up(frame, last)
            del frame  # it is not counted any more once it is answered
        await self._queue.join()

    async def _take_up(self, frame: Frame, last: Api | None) -> Api | None:
        """Begin with a request, once those before it allow it, and return its kind."""
        try:
            request = self._decode(frame)
            is_next = request is not None and request.api is last is Api.PRODUCE
            if not is_next or self._caller is None:  # the first one lets the client in, once
                await self._queue.join()
            work = self._refuse_version(frame) if request is None else self._begin(request)
        except BaseException:
            self._budget.give_back(len(frame))
            raise
        under = Under(asyncio.create_task(work), len(frame))
        try:
            await self._queue.put(under)
        except BaseException:
            under.task.cancel()
            self._budget.give_back(under.length)
            raise
        return None if request is None else request.api

    async def _next_frame(self) -> Frame | None:
        """Return the next frame, as `_frame` does, once the client is not held back any more."""
        if self._is_held:
            await self._queue.join()
            await asyncio.sleep(self._resume_s - asyncio.get_running_loop().time())
        return await self._frame()

    @property
    def _is_held(self) -> bool:
        return self._caller is not None and self._caller.session.turns.is_held

    async def _frame(self) -> Frame | None:
        """Return the next frame, whose bytes are taken from the budget; None at the end of the stream."""
        try:
            async with asyncio.timeout(self._settings.idle_s):
                length = await self._stream.next_length()
        except TimeoutError:
            return None
        if length is None:
            return None
        if self._caller is None and STRANGER_BYTES_MAX < length <= self._settings.request_bytes_max:
            await self._let_in_early()
        longest = STRANGER_BYTES_MAX if self._caller is None else self._settings.request_bytes_max
        if not 8 <= length <= longest:
            raise DecodeError(f"a request of {length} bytes: 8 to {longest} are taken")
        await self._budget.take(length)
        frame = None
        try:
            async with asyncio.timeout(FRAME_TIMEOUT_S):
                frame = await self._stream.next_frame(length)
        finally:
            if frame is None:
                self._budget.give_back(length)
        return frame

    async def _let_in_early(self) -> None:
        """Let a client in whose first request is a long one, unless it still has to show a token. Raises OrdoError."""
        await self._queue.join()  # what is asked before may let it in
        if self._caller is None and not self._is_shaken:
            with suppress(SessionRejectedError):
                await self._let_in(None)

    def _decode(self, frame: Frame) -> Request | None:
        """Return the request; None for an ApiVersions request of a version that is not known here."""
        try:
            return decode_request(frame)
        except UnknownVersionError as error:
            if error.api == Api.API_VERSIONS:
                return None
            raise

    async def _refuse_version(self, frame: Frame) -> bytes:
        correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
        return encode_response(Api.API_VERSIONS, 0, correlation_id, api_versions(KafkaError.UNSUPPORTED_VERSION))

    async def _begin(self, request: Request) -> bytes:
        """Carry a request out, and return the response's bytes; none for one that gets no response."""
        begun_s = asyncio.get_running_loop().time()
        values = await self._answer(request)
        if request.api is Api.PRODUCE and self._is_held:
            values = self._throttled(values, begun_s)
        if request.api is Api.PRODUCE and request.body.acks == 0:
            return b""
        return encode_response(request.api, request.version, request.correlation_id, values)

    def _throttled(self, values: Values, begun_s: float) -> Values:
        """Begin a pause as long as the request has waited, if not longer than a pause may be, and tell it."""
        now_s = asyncio.get_running_loop().time()
        throttle_ms = math.ceil(min(now_s - begun_s, THROTTLE_S_MAX) * 1_000)
        self._resume_s = now_s + throttle_ms / 1_000
        return {**values, "throttle_time": throttle_ms}

    async def _answer(self, request: Request) -> Values:
        if request.api is Api.API_VERSIONS:
            return api_versions()
        if request.api is Api.SASL_HANDSHAKE:
            self._is_shaken = request.body.mechanism == MECHANISM
            error = KafkaError.NONE if self._is_shaken else KafkaError.UNSUPPORTED_SASL_MECHANISM
            return {"error_code": error, "mechanisms": [MECHANISM]}
        if request.api is Api.SASL_AUTHENTICATE:
            return await self._authenticate(request.body.auth_bytes)
        if self._caller is None:
            await self._let_in(None)
        assert self._caller is not None
        self._caller.client_id = request.client_id
        return await self._calls.answer(self._caller, request)

    async def _authenticate(self, message: bytes) -> Values:
        if not self._is_shaken or self._caller is not None:
            return {"error_code": KafkaError.ILLEGAL_SASL_STATE, "error_message": "not now", "auth_bytes": b""}
        parts = message.split(b"\0")
        failed = {"error_code": KafkaError.SASL_AUTHENTICATION_FAILED, "auth_bytes": b""}
        if len(parts) != 3 or not parts[2]:
            return failed | {"error_message": "PLAIN takes a user name and, as the password, a token of the cluster"}
        try:
            await self._let_in(parts[2])
        except SessionRejectedError as error:  # others pass: clients take this answer for final
            return failed | {"error_message": error.message}
        return {"error_code": KafkaError.NONE, "error_message": None, "auth_bytes": b""}

    async def _let_in(self, token: bytes | None) -> None:
        """Open the session of a token. Raises OrdoError if the cluster does not let it in."""
        session: ClusterSession = self._sessions.take(token)
        try:
            await session.open()
        except BaseException:
            self._sessions.give_back(session, is_refused=True)
            raise
        peer = self._stream.transport.get_extra_info("peername") or ("", 0)
        self._caller = Caller(session, str(peer[0]), self._door())

    def _door(self) -> tuple[str, int]:
        advertised = self._settings.advertise
        if advertised:
            host, _, port = advertised.rpartition(":")
            return host.strip("[]"), int(port)
        name = self._stream.transport.get_extra_info("sockname") or ("127.0.0.1", 0)
        return str(name[0]), int(name[1])

    async def _send(self) -> None:
        while True:
            await self._send_one(await self._queue.get())

    async def _send_one(self, under: Under) -> None:
        try:
            if response := await under.task:
                async with asyncio.timeout(FRAME_TIMEOUT_S):
                    await self._stream.send(response)
        finally:
            under.task.cancel()
            self._budget.give_back(under.length)
            self._let_go()
            self._queue.task_done()
            del under  # an error of the request has this frame, and the request keeps the error

    def _let_go(self) -> None:
        """Note that the client has taken the response, or never will."""
        if self._caller is not None:
            self._caller.let_go()
