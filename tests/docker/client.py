"""Runs in a container: adds one for as long as it is let, and demands that every total is the next one.

Prints a line of JSON for every second, and at SIGTERM the last; exits with 1 when a total is wrong.
"""

import json
import signal
import socket
import sys
import time

from ordo import ClientSettings, ClusterClient

running = True


def stop(_number: int, _frame: object) -> None:
    global running
    running = False


def main(endpoints: list[str]) -> int:
    signal.signal(signal.SIGTERM, stop)
    own = socket.gethostbyname(socket.gethostname())
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={own}:0", new_leader_timeout_s=60.0)
    with ClusterClient(endpoints, settings=settings) as client:
        total, longest_s, told_s = 0, 0.0, 0.0
        while running:
            began_s = time.monotonic()
            answer = int(client.request(b"1", timeout_s=60.0).payload)
            longest_s = max(longest_s, time.monotonic() - began_s)
            total += 1
            if answer != total:
                print(json.dumps({"total": answer, "expected": total}), flush=True)
                return 1
            if time.monotonic() - told_s > 1:
                told_s = time.monotonic()
                print(json.dumps({"total": total, "longest_s": round(longest_s, 2)}), flush=True)
                longest_s = 0.0
            time.sleep(0.002)
    print(json.dumps({"total": total, "end": True}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
