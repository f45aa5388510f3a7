"""Sends so many messages a second to a service that echoes, and says after each turn how many were answered.

python -m tests.faults.paced_load 20000 10.99.0.1:20000,10.99.0.1:20008 [COUNT]

Each line is the number of messages that were answered and the seconds since the first was sent. It ends after COUNT,
or when it is killed.
"""

from __future__ import annotations

import itertools
import sys
import time

from ordo.bench.loads.native_load import NativeLoad

SIZE_BYTES = 64
WINDOW = 512
TURN_S = 0.05


def main() -> None:
    rate, endpoints = int(sys.argv[1]), dict(enumerate(sys.argv[2].split(",")))
    count = int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize
    a_turn = max(1, int(rate * TURN_S))
    with NativeLoad(endpoints, SIZE_BYTES) as load:
        begun_s = time.monotonic()
        for turn in itertools.count(1):
            load.pipelined(a_turn, WINDOW)
            print(turn * a_turn, time.monotonic() - begun_s, flush=True)
            if turn * a_turn >= count:
                return
            while time.monotonic() - begun_s < turn * TURN_S:
                load.keep()
                time.sleep(0.002)


if __name__ == "__main__":
    main()
