"""Connections of browsers, bounded in all and for each address; none may keep silent.

A connection counts from the moment it is accepted, before TLS. It has a time for its handshake and its request's
header, and a time for taking an answer and asking again; streams of events have theirs from the console. One that is
closed keeps its descriptor, and counts, until its browser took what is buffered for it; there is a time for that, too.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable

from ordo.gateway.doors.connection_places import ConnectionPlaces
from ordo.runtime.reporting.logging import get_logger

ADDRESS_SHARE = 4
"""One address may have a quarter of the connections: 64 of 256."""
HEADER_TIMEOUT_S = 10.0
"""For TLS and a request's header."""
IDLE_TIMEOUT_S = 30.0
"""From the end of a request until its answer was taken and the next one has come."""
CLOSING_TIMEOUT_S = 15.0
"""For taking what is buffered when the connection is closed."""
REFUSAL_LOG_INTERVAL_S = 60.0
NO_DESCRIPTOR_PAUSE_S = 1.0
BACKLOG = 128


class _Connection:
    """One connection, and until when it must have done something; None while a request of it is under way."""

    def __init__(self, address: str, source: socket.socket, deadline_s: float) -> None:
        self.address = address
        self._source = source
        self.transport: asyncio.Transport | None = None
        self.deadline_s: float | None = deadline_s
        self._closing_deadline_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether its descriptor is given back. A transport that is closing has it as long as its buffer is full."""
        return self._source.fileno() < 0

    def abort_late(self, now_s: float, closing_timeout_s: float) -> None:
        """Abort it if its time is over; from the first call on that finds it closing, it has `closing_timeout_s`."""
        if self.transport is None:
            return
        if self._closing_deadline_s is None and self.transport.is_closing():
            self._closing_deadline_s = now_s + closing_timeout_s
        if any(one is not None and now_s >= one for one in (self.deadline_s, self._closing_deadline_s)):
            self.transport.abort()


class Connections:
    """Accepts connections at a listening socket and hands them to a web server; belongs to one event loop."""

    def __init__(
        self,
        listener: socket.socket,
        make: Callable[[], asyncio.Protocol],
        connections_max: int,
        *,
        header_timeout_s: float = HEADER_TIMEOUT_S,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        closing_timeout_s: float = CLOSING_TIMEOUT_S,
    ) -> None:
        """`make` returns the protocol of a new connection."""
        self.refused = 0
        self._places = ConnectionPlaces(connections_max, max(connections_max // ADDRESS_SHARE, 1))
        self._listener = listener
        self._make = make
        self._header_timeout_s = header_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._closing_timeout_s = closing_timeout_s
        self._open: dict[asyncio.Protocol, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._told_s = float("-inf")
        listener.setblocking(False)

    def __len__(self) -> int:
        return len(self._open)

    def start(self, tls: ssl.SSLContext | None) -> None:
        """Begin to accept."""
        self._accepting = asyncio.create_task(self._accept(tls))

    async def _accept(self, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                source, address = await loop.sock_accept(self._listener)
            except OSError:  # no descriptor is left, or a connection that went away again
                await asyncio.sleep(NO_DESCRIPTOR_PAUSE_S)
                continue
            host = str(address[0])
            if not self._take_place(host):
                source.close()
                self._note_refusal(host)
                continue
            protocol, connection = self._make(), _Connection(host, source, time.monotonic() + self._header_timeout_s)
            self._open[protocol] = connection
            task = loop.create_task(self._shake_hands(source, protocol, connection, tls))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take_place(self, host: str) -> bool:
        if self._places.take(host):
            return True
        self._forget_closed()  # there may be one by now
        return self._places.take(host)

    def _forget_closed(self) -> None:
        for protocol in [protocol for protocol, one in self._open.items() if one.is_over]:
            self._forget(protocol)

    def _forget(self, protocol: asyncio.Protocol) -> None:
        """Give the place of a connection back, if it has one still."""
        if (connection := self._open.pop(protocol, None)) is not None:
            self._places.give_back(connection.address)

    async def _shake_hands(
        self, source: socket.socket, protocol: asyncio.Protocol, connection: _Connection, tls: ssl.SSLContext | None
    ) -> None:
        timeout_s = None if tls is None else self._header_timeout_s
        try:
            loop = asyncio.get_running_loop()
            connection.transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, source, ssl=tls, ssl_handshake_timeout=timeout_s
            )
        except OSError:  # also of TLS, and the handshake's timeout
            self._forget(protocol)
            source.close()

    def _note_refusal(self, host: str) -> None:
        self.refused += 1
        if time.monotonic() - self._told_s >= REFUSAL_LOG_INTERVAL_S:
            self._told_s = time.monotonic()
            get_logger().warning("gateway.console-refused", address=host, open=len(self), refused=self.refused)

    def begin(self, protocol: asyncio.BaseProtocol | None) -> None:
        """Note that a request of this connection has come."""
        if (found := self._find(protocol)) is not None:
            found.deadline_s = None

    def end(self, protocol: asyncio.BaseProtocol | None) -> None:
        """Note that the request is handled; its answer is on the way."""
        if (found := self._find(protocol)) is not None:
            found.deadline_s = time.monotonic() + self._idle_timeout_s

    def _find(self, protocol: asyncio.BaseProtocol | None) -> _Connection | None:
        return self._open.get(protocol) if isinstance(protocol, asyncio.Protocol) else None

    def close_silent(self) -> None:
        """Abort connections that are past their time; call it every second."""
        self._forget_closed()
        now_s = time.monotonic()
        for one in self._open.values():
            one.abort_late(now_s, self._closing_timeout_s)

    def stop(self) -> None:
        """Accept no more connections, and end those that are still in its handshake. Idempotent."""
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        for task in self._tasks:
            task.cancel()
        self._listener.close()
