"""A bad stretch of network: a UDP relay that drops datagrams, seeded."""

from __future__ import annotations

import random
import select
import socket
import threading
from typing import Self

from ordo.runtime.closing import Closing

RECEIVE_BYTES_MAX = 65_536
POLL_S = 0.1
SOCKET_BUFFER_BYTES = 1 << 20


class LossyRelay(Closing):
    """Takes datagrams at `port`, passes them on to `target_port` of 127.0.0.1, and answers back to the last sender.

    `loss` from 0 to 1, may be changed.
    """

    def __init__(self, target_port: int, *, loss: float, seed: int = 1) -> None:
        self._target = ("127.0.0.1", target_port)
        self.loss = loss
        self._random = random.Random(seed)
        self._near = _socket()
        self._far = _socket()
        self._sender: tuple[str, int] | None = None
        self._running = True
        self.dropped = 0
        self.port: int = self._near.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while self._running:
            ready, _, _ = select.select([self._near, self._far], [], [], POLL_S)
            for one in ready:
                datagram, source = one.recvfrom(RECEIVE_BYTES_MAX)
                if one is self._near:
                    self._sender = source
                self._pass_on(one, datagram)

    def _pass_on(self, came_on: socket.socket, datagram: bytes) -> None:
        if self._random.random() < self.loss:
            self.dropped += 1
        elif came_on is self._near:
            self._far.sendto(datagram, self._target)
        elif self._sender is not None:
            self._near.sendto(datagram, self._sender)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._running = False
        self._thread.join()
        self._near.close()
        self._far.close()


def _socket() -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        one.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    one.bind(("127.0.0.1", 0))
    return one
