"""A broker for MQTT 3.1.1 that keeps what is not acknowledged, sends it again, and records what bridges do."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

CONNECT, PUBLISH, ACKNOWLEDGED, SUBSCRIBE, PING = 1, 3, 4, 8, 12


class StubBroker:
    """Serves one connection, which the next displaces; it gets all messages that are not acknowledged, one at a time.

    It ends a connection when all are acknowledged. `refusal`: what it answers to CONNECT, if not 0.
    """

    def __init__(self, messages: Sequence[tuple[str, bytes]] = (), refusal: int = 0) -> None:
        self.left = list(messages)
        self.stays = True
        """Whether a connection goes on after its first packet."""
        self.connections = 0
        self.acknowledged: list[str] = []
        self.on_acknowledged: Callable[[str], object] = lambda topic: None
        self._refusal = refusal
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _accept(self) -> None:
        served: list[tuple[socket.socket, threading.Thread]] = []
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                connection = None
            for displaced, thread in served:
                with suppress(OSError):
                    displaced.shutdown(socket.SHUT_RDWR)
                thread.join()
            if connection is None:
                return
            self.connections += 1
            served = [(connection, threading.Thread(target=self._serve, args=(connection,)))]
            served[0][1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reading, suppress(OSError):
            while packet := _read_packet(reading.read):
                if not self._answer(connection, *packet):
                    return

    def _answer(self, connection: socket.socket, kind: int, body: bytes) -> bool:
        """Take a packet; return whether the connection goes on."""
        if kind == CONNECT:
            connection.sendall(bytes((0x20, 2, 0, self._refusal)))
            return self._refusal == 0 and self.stays
        if kind == SUBSCRIBE:
            connection.sendall(bytes((0x90, 3)) + body[:2] + b"\x01")
        elif kind == ACKNOWLEDGED:
            topic, _ = self.left.pop(0)
            self.acknowledged.append(topic)
            self.on_acknowledged(topic)
        elif kind == PING:
            connection.sendall(b"\xd0\x00")
            return True
        else:
            return False
        if self.left:
            connection.sendall(_publication(*self.left[0]))
        return bool(self.left)


def _read_packet(read: Callable[[int], bytes]) -> tuple[int, bytes] | None:
    first = read(1)
    if not first:
        return None
    length = shift = 0
    while True:
        (byte,) = read(1)
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return first[0] >> 4, read(length)


def _publication(topic: str, payload: bytes) -> bytes:
    name = topic.encode()
    body = struct.pack(">H", len(name)) + name + struct.pack(">H", 1) + payload
    length, rest = bytearray(), len(body)
    while True:
        rest, low = rest >> 7, rest & 0x7F
        length.append(low | (0x80 if rest else 0))
        if not rest:
            return bytes((PUBLISH << 4 | 2,)) + length + body
