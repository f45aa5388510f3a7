"""Finds the address under which other machines reach this one."""

from __future__ import annotations

import socket
from collections.abc import Iterable


def address_towards(endpoints: Iterable[str]) -> str | None:
    """Return the address by which this machine reaches the first of these `host:port` that it has a way to; None.

    To none.
    """
    for endpoint in endpoints:
        host, _, port = endpoint.rpartition(":")
        try:
            found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
            with socket.socket(found[0][0], socket.SOCK_DGRAM) as probe:
                probe.connect(found[0][4])  # of a datagram socket: chooses the route, sends nothing
                return str(probe.getsockname()[0])
        except (OSError, ValueError):
            continue
    return None
