"""The addresses of the sockets that a driver has bound for a channel, out of its counters."""

from __future__ import annotations

import struct
from typing import Final

from ordo.runtime.native.counters import CountersReader
from ordo.transport.client.driver_link import NULL_COUNTER_ID

LOCAL_SOCKET_ADDRESS_TYPE_ID: Final = 14
ACTIVE: Final = 1
"""The value of a channel's status counter, and of an address, once the socket is bound."""


def local_socket_addresses(counters: CountersReader, channel_status_id: int) -> list[str]:
    """Return `host:port` of each socket of a channel, given its status counter. Empty until it is active."""
    if not _is_active(counters, channel_status_id):
        return []
    found = []
    for counter in counters:
        if counter.type_id != LOCAL_SOCKET_ADDRESS_TYPE_ID or counter.value != ACTIVE:
            continue
        status_id, length = struct.unpack_from("<ii", counter.key)
        if status_id == channel_status_id and length > 0:
            found.append(counter.key[8 : 8 + length].decode("ascii"))
    return found


def first_local_socket_address(counters: CountersReader, channel_status_id: int) -> str | None:
    """Return the first of `local_socket_addresses`, found without describing every counter; None until bound."""
    if not _is_active(counters, channel_status_id):
        return None
    found = counters.find(LOCAL_SOCKET_ADDRESS_TYPE_ID, struct.pack("<i", channel_status_id))
    counter = None if found == NULL_COUNTER_ID else counters.describe(found)
    if counter is None or counter.value != ACTIVE:
        return None
    _, length = struct.unpack_from("<ii", counter.key)
    return counter.key[8 : 8 + length].decode("ascii") if length > 0 else None


def _is_active(counters: CountersReader, channel_status_id: int) -> bool:
    return channel_status_id != NULL_COUNTER_ID and counters.get_value(channel_status_id) == ACTIVE
