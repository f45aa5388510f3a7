"""The bytes of one connection: frames in, each received into a buffer of its own, and responses out.

What comes lands in a small buffer, where lengths and short frames are read. A longer frame gets a buffer of its length
once its length has been looked at, and what is left of it is received there: it is no longer copied, and wakes nobody
before it is whole. While the landing buffer is full, nothing more is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

LENGTH_BYTES = 4
LANDING_BYTES = 16 << 10
"""So much of what a client sends is taken before anybody asks for it."""
NOTHING = memoryview(b"")
Frame = bytes | memoryview
"""A frame without its length; nothing changes it any more."""


class FrameStream(asyncio.BufferedProtocol):
    """`next_length`, then `next_frame` with it or nothing more. Belongs to one event loop, and is read by one task."""

    def __init__(self, on_connected: Callable[[FrameStream], object]) -> None:
        """`on_connected` is called with the stream once a client is there, with TLS after its handshake."""
        self._on_connected = on_connected
        self._transport: asyncio.Transport | None = None
        self._landing = memoryview(bytearray(LANDING_BYTES))
        self._begin = self._end = 0
        """Where in `_landing` that stands which has come and was not taken."""
        self._left = NOTHING
        """What is still to come of a long frame."""
        self._arrived = asyncio.Event()
        """Set when something has come that may be waited for, or nothing more will come."""
        self._is_over = False
        self._is_paused = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_lost = False

    # The event loop's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.BaseProtocol."""
        self._transport = cast(asyncio.Transport, transport)
        self._on_connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        if self._left:
            return self._left
        if self._begin:
            count = self._end - self._begin
            self._landing[:count] = self._landing[self._begin : self._end]
            self._begin, self._end = 0, count
        return self._landing[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        if self._left:
            self._left = self._left[nbytes:] if nbytes < len(self._left) else NOTHING
            if not self._left:
                self._arrived.set()
            return
        self._end += nbytes
        self._arrived.set()
        if self._end - self._begin == LANDING_BYTES:
            self.transport.pause_reading()
            self._is_paused = True

    def eof_received(self) -> bool:
        """See asyncio.BufferedProtocol. What was asked before is answered, which TLS does not allow."""
        self._end_reading()
        return self.transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._has_room.clear()

    def resume_writing(self) -> None:
        """See asyncio.BaseProtocol."""
        self._has_room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.BaseProtocol. Whatever the reason is, the client is gone."""
        self._is_lost = True
        self._has_room.set()
        self._end_reading()

    def _end_reading(self) -> None:
        self._is_over = True
        self._arrived.set()

    # The connection's

    @property
    def transport(self) -> asyncio.Transport:
        """What the client is connected by."""
        assert self._transport is not None, "no client is connected yet"
        return self._transport

    async def next_length(self) -> int | None:
        """Return the length that stands before the next frame; None if nothing more comes."""
        while self._end - self._begin < LENGTH_BYTES:
            if not await self._more():
                return None
        return int.from_bytes(self._take(LENGTH_BYTES), "big")

    async def next_frame(self, length: int) -> Frame | None:
        """Return the frame of which `next_length` has told the length; None if it does not come whole.

        Who gives up waiting for it has nothing more to read here.
        """
        if length <= self._end - self._begin:
            return self._take(length)
        frame = bytearray(length)
        left, landed = memoryview(frame), self._end - self._begin
        left[:landed] = self._landing[self._begin : self._end]
        self._begin = self._end = 0
        self._left = left[landed:]
        self._resume()
        try:
            while self._left:
                if not await self._more():
                    return None
            return memoryview(frame).toreadonly()
        finally:
            self._left = NOTHING

    def _take(self, length: int) -> bytes:
        taken = bytes(self._landing[self._begin : self._begin + length])
        self._begin += length
        if self._begin == self._end:
            self._begin = self._end = 0
        self._resume()
        return taken

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    async def _more(self) -> bool:
        """Wait until something has come; return False if nothing more will."""
        if self._is_over:
            return False
        self._arrived.clear()
        await self._arrived.wait()
        return True

    async def send(self, response: bytes) -> None:
        """Send, and wait until the client has taken most of what it was sent. Raises ConnectionResetError."""
        if not self._is_lost:
            self.transport.write(response)
            await self._has_room.wait()
        if self._is_lost:
            raise ConnectionResetError("the client is gone")

    def close(self) -> None:
        """Close the connection, at once if the client does not take what it was sent."""
        transport = self.transport
        transport.abort() if transport.get_write_buffer_size() else transport.close()
