"""A client with a journal, that is killed and started again: it writes down what was answered.

python -m tests.examples.retrying_client MEMBERS JOURNAL ANSWERS NAME
"""

from __future__ import annotations

import os
import sys

from ordo import ClientSettings, ClusterClient

UNDER_WAY_MAX = 200


def main(members: str, journal: str, answers: str, name: str) -> None:
    settings = ClientSettings(journal=journal, request_retry_interval_s=0.1)
    with ClusterClient(members.split(","), settings=settings) as client, open(answers, "a") as file:
        for one in client.recovered_requests:
            one.result(60)
        number = 0
        while True:
            pending = [client.submit(b"%s %d" % (name.encode(), number + index)) for index in range(UNDER_WAY_MAX)]
            number += UNDER_WAY_MAX
            for one in pending:
                file.write(f"{one.result(60).log_position}\n")
            file.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], f"{sys.argv[4]} {os.getpid()}")
