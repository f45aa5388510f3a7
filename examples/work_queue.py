"""Messages as jobs: any number of these programs share them, and each job is done by one of them.

    python -m examples.work_queue 127.0.0.1:20000,127.0.0.1:20010,127.0.0.1:20020 done.txt

A job that fails is tried again a second later, and is a dead letter after five times. A job whose worker was killed
goes to another one; it may have been done before, so what a job does must bear being done again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ordo import ClientSettings, Delivery, SharedConsumer


def do_job(delivery: Delivery, path: Path) -> None:
    """Notes the job; a line at a time, as several programs write into the file."""
    if delivery.payload.startswith(b"fail"):
        raise ValueError(f"job at {delivery.position} cannot be done")
    with path.open("ab", buffering=0) as file:
        file.write(b"%d %d %s\n" % (delivery.position, delivery.tries, delivery.payload))


def run(endpoints: Sequence[str], path: Path, name: str = "jobs", egress: str = "127.0.0.1:0") -> None:
    """Does jobs until it is ended."""
    settings = ClientSettings(egress_channel=f"aeron:udp?endpoint={egress}")
    # Longer than the cluster's session_timeout: the jobs of a worker that was killed are handed out again when its
    # session ends, and its silence does not count as tries.
    with SharedConsumer(endpoints, name, ack_timeout_s=30.0, settings=settings) as consumer:
        for delivery in consumer:
            try:
                do_job(delivery, path)
            except ValueError as error:
                print(error, file=sys.stderr)
                consumer.nack(delivery, delay_s=1.0)
            else:
                consumer.ack(delivery)


if __name__ == "__main__":
    run(sys.argv[1].split(","), Path(sys.argv[2]))
