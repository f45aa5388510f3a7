"""Joins two network interfaces as a long line does: what comes on one leaves on the other later, or is lost.

python -m tests.faults.far_link host0 host1 --delay-ms 40 --loss 0.01

netem is not in every kernel. Frames pass with what the kernel knows of their checksums, so nothing is computed here.
"""

from __future__ import annotations

import argparse
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from random import Random

PACKET_VNET_HDR = 15
SOL_PACKET = 263
SO_RCVBUFFORCE = 33
ETH_P_ALL = 3
PACKET_OUTGOING = 4
FRAME_BYTES_MAX = 1 << 17
BUFFER_BYTES = 16 << 20
FRAMES_AT_ONCE = 256


class Side:
    """An interface, and the frames that are on their way to it."""

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        self.socket.bind((name, ETH_P_ALL))
        self.socket.setblocking(False)
        self.waiting: deque[tuple[float, bytes]] = deque()

    def take(self) -> list[bytes]:
        """Return what has come."""
        found: list[bytes] = []
        while len(found) < FRAMES_AT_ONCE:
            try:
                frame, address = self.socket.recvfrom(FRAME_BYTES_MAX)
            except BlockingIOError:
                break
            if address[2] != PACKET_OUTGOING:
                found.append(frame)
        return found

    def send_due(self, now_s: float) -> None:
        """Send what has been on its way for long enough; a full queue loses it, as a real one does."""
        while self.waiting and self.waiting[0][0] <= now_s:
            try:
                self.socket.send(self.waiting.popleft()[1])
            except OSError:
                continue


def join(names: Sequence[str], delay_s: float, loss: float, seed: int) -> None:
    """Pass on until this process is ended."""
    random = Random(seed)
    first, second = (Side(name) for name in names)
    others = {first.socket: (first, second), second.socket: (second, first)}
    print("joined", flush=True)
    while True:
        now_s = time.monotonic()
        due_s = min((side.waiting[0][0] for side in (first, second) if side.waiting), default=now_s + 1)
        ready, _, _ = select.select(list(others), [], [], max(0.0, due_s - now_s))
        now_s = time.monotonic()
        for one in ready:
            came_on, other = others[one]
            other.waiting.extend((now_s + delay_s, frame) for frame in came_on.take() if random.random() >= loss)
        first.send_due(now_s)
        second.send_due(now_s)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.far_link", description=__doc__)
    parser.add_argument("interfaces", nargs=2)
    parser.add_argument("--delay-ms", type=float, required=True, help="in one direction")
    parser.add_argument("--loss", type=float, required=True, help="from 0 to 1")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    join(options.interfaces, options.delay_ms / 1000, options.loss, options.seed)


if __name__ == "__main__":
    main()
