"""A native client of an Ordo cluster whose service echoes, as a process that is told what to measure by lines.

    python -m benchmarks.cluster_peer ENDPOINTS SIZES MTU

ENDPOINTS as `0=host:port,1=...`, SIZES as `32,288`: a session for each. It prints `ready`. For each line
`load BYTES WINDOW COUNT` it sends that many messages, up to a window of them on the way, takes every echo, and prints
`load COUNT NS P50_NS P99_NS`. For `flood BYTES WINDOW SECONDS` it sends as fast as it can for at least so long, and
prints `flood RATE`, in messages a second. It ends with its standard input.
"""

from __future__ import annotations

import select
import sys
from contextlib import ExitStack

from ordo.bench.loads.latency import value_at_ns
from ordo.bench.loads.native_load import NativeLoad

KEEP_S = 0.005
FLOOD_RUN = 500_000
"""So many messages before the flood looks at the time."""


def main(endpoints: str, sizes: str, mtu: str) -> None:
    members = {int(member): where for member, where in (each.split("=") for each in endpoints.split(","))}
    with ExitStack() as stack:
        loads = {
            int(size): stack.enter_context(NativeLoad(members, int(size), mtu_bytes=int(mtu)))
            for size in sizes.split(",")
        }
        print("ready", flush=True)
        while True:
            while not select.select([sys.stdin], [], [], KEEP_S)[0]:
                for load in loads.values():
                    load.keep()
            words = sys.stdin.readline().split()
            if not words:
                return
            size_bytes, window, count = map(int, words[1:])
            if words[0] == "flood":
                print("flood", round(loads[size_bytes].sustained(count, FLOOD_RUN, window)), flush=True)
                continue
            took_ns, histogram = loads[size_bytes].measured(count, window)
            p50_ns, p99_ns = (value_at_ns(histogram, percent) for percent in (50, 99))
            print("load", count, took_ns, p50_ns, p99_ns, flush=True)
            for load in loads.values():
                load.keep()


if __name__ == "__main__":
    main(*sys.argv[1:])
