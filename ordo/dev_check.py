"""Tries a service before `ordo dev` starts it on members: `python -m ordo.dev_check module:Class`.

Its start, a session, its snapshot and its restart go through `check_service`. Then it gets two messages that it may not
expect: what it raises there but Reject would stop every member, and what it answers must be bytes.
Prints a line for each finding. Exit status: 0 it may start, 1 it may not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ordo.cluster.container.service_loader import load_service
from ordo.runtime.errors import OrdoError, PayloadError, ServiceError
from ordo.runtime.reporting.failures import one_line
from ordo.service_api.service import Service
from ordo.service_api.snapshot_demand import implements_snapshots
from ordo.service_api.testing.harness import CloseSession, Message, OpenSession, ServiceHarness, check_service

PROBES = (b"", b"\x00")


def find_refusal(service: type[Service]) -> str:
    """Return why the service must not start; '' if it may."""
    try:
        if implements_snapshots(service):
            check_service(service, [OpenSession(1, 1), CloseSession(1, 2)], snapshot_points=1)
        else:
            ServiceHarness(service).execute(OpenSession(1, 1), CloseSession(1, 2))
    except Exception as error:
        return error.message if isinstance(error, ServiceError) else one_line(error)
    return _find_wrong_answer(service)


def _find_wrong_answer(service: type[Service]) -> str:
    for payload in PROBES:
        try:
            ServiceHarness(service).execute(OpenSession(1, 1), Message(1, 2, payload))
        except (PayloadError, ServiceError) as error:
            if "must be bytes" in error.message:
                return error.message
        except Exception:
            continue  # `list_warnings` tells it
    return ""


def list_warnings(service: type[Service]) -> Iterator[str]:
    """Yield what would stop all members when a client sends it."""
    for payload in PROBES:
        try:
            ServiceHarness(service).execute(OpenSession(1, 1), Message(1, 2, payload))
        except Exception as error:
            yield (
                f"a message {payload!r} would stop every member: {one_line(error)}; refuse what the service does not"
                ' understand: raise Reject("why") (SERVICES.md)'
            )
            return


def main(name: str) -> int:
    """Check the class of this name; the exit status."""
    try:
        service = load_service(name)
    except OrdoError as error:
        print(error.message)
        return 1
    refusal = find_refusal(service)
    for line in [refusal] if refusal else list_warnings(service):
        print(line)
    return 1 if refusal else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
