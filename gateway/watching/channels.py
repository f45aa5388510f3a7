"""How watchers are told over HTTP: server-sent events, and WebSocket.

Both have the same events: `begin` {next}, `message`, `slow` {waited_ms}, and `end` {reason, text, can_resume}. An event
stream names them, with the message's number as its id; a WebSocket has one JSON object for each, {"event", "data"}.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from aiohttp import WSCloseCode, web

from ordo.gateway.watching.watch_requests import PROTOCOL
from ordo.gateway.watching.watched_items import WatchedItem
from ordo.gateway.watching.watchers import Ending, Reason

END_TIMEOUT_S = 2.0
"""So long the end may take to be told; who takes nothing has it in its buffers, or hears of it by the connection."""
PING_S = 20.0
INCOMING_BYTES_MAX = 1_024
"""A watcher has nothing to say; what it sends ends the watch."""
CLOSE_CODES = {
    Reason.SLOW: WSCloseCode.TRY_AGAIN_LATER,
    Reason.STOPPING: WSCloseCode.GOING_AWAY,
    Reason.FAILED: WSCloseCode.INTERNAL_ERROR,
}
REASON_BYTES_MAX = 120
"""The reason of a WebSocket's end has at most 123 bytes."""


def _event(name: str, data: str, number: int | None = None) -> bytes:
    """Return an event with the number to go on from as its last line, so that what is cut short has no id of its own.

    Some libraries hand out an event whose connection ended within it, and go on behind the id that they have read.
    """
    tail = "" if number is None else f"id: {number}\n"
    return f"event: {name}\ndata: {data}\n{tail}\n".encode()


def _told(ending: Ending) -> str:
    return json.dumps({"reason": ending.reason.value, "text": ending.text, "can_resume": ending.can_resume})


def hang_up(request: web.Request) -> None:
    """Close the connection of a watcher: it gets what is buffered if it takes that before `Connections` aborts it."""
    if request.transport is not None:
        request.transport.close()


class EventStream:
    """Server-sent events."""

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self.response = web.StreamResponse(
            headers={**headers, "Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
        )

    async def begin(self, next_sequence: int) -> None:
        """Let the watcher in. The id has it resume where it began if the connection ends before a first message."""
        await self.response.prepare(self._request)
        number = next_sequence - 1 if next_sequence else None
        await self.response.write(_event("begin", json.dumps({"next": next_sequence}), number))

    async def send_items(self, items: list[WatchedItem]) -> None:
        await self.response.write(b"".join(_event("message", one.text, one.sequence) for one in items))

    async def send_slow(self, waited_s: float) -> None:
        await self.response.write(_event("slow", json.dumps({"waited_ms": round(waited_s * 1_000)})))

    async def send_heartbeat(self) -> None:
        await self.response.write(b": nothing new\n\n")

    async def end(self, ending: Ending) -> None:
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await self.response.write(_event("end", _told(ending)))
                await self.response.write_eof()
        except TimeoutError:
            hang_up(self._request)


class Socket:
    """A WebSocket."""

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self.response = web.WebSocketResponse(
            protocols=(PROTOCOL,),
            heartbeat=PING_S,
            max_msg_size=INCOMING_BYTES_MAX,
            compress=False,
            timeout=END_TIMEOUT_S,
        )
        self.response.headers.update(headers)
        self._listening: asyncio.Task[None] | None = None

    async def begin(self, next_sequence: int) -> None:
        """Let the watcher in."""
        await self.response.prepare(self._request)
        watching = asyncio.current_task()
        assert watching is not None
        self._listening = asyncio.create_task(self._listen(watching))
        await self._send("begin", json.dumps({"next": next_sequence}))

    async def _listen(self, watching: asyncio.Task[object]) -> None:
        """Answer pings, and end the watch once the watcher closes it or says something."""
        message = await self.response.receive()
        if message.type is web.WSMsgType.TEXT or message.type is web.WSMsgType.BINARY:
            text = b"a watcher sends nothing"
            await self.response.close(code=WSCloseCode.POLICY_VIOLATION, message=text)
        watching.cancel()

    async def _send(self, event: str, data: str) -> None:
        await self.response.send_str(f'{{"event":"{event}","data":{data}}}')

    async def send_items(self, items: list[WatchedItem]) -> None:
        for one in items:
            await self._send("message", one.text)

    async def send_slow(self, waited_s: float) -> None:
        await self._send("slow", json.dumps({"waited_ms": round(waited_s * 1_000)}))

    async def send_heartbeat(self) -> None:
        """Say nothing: a WebSocket has pings."""

    async def end(self, ending: Ending) -> None:
        self.stop()
        code = CLOSE_CODES.get(ending.reason, WSCloseCode.POLICY_VIOLATION)
        reason = f"{ending.reason.value}: {ending.text}".encode()[:REASON_BYTES_MAX].decode(errors="ignore").encode()
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await self._send("end", _told(ending))
                await self.response.close(code=code, message=reason)
        except TimeoutError:
            hang_up(self._request)

    def stop(self) -> None:
        """Listen no more. Idempotent."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
