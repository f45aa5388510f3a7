"""What a node lets its media driver take: enough for its log and for as many sessions as are allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ordo.transport.driver.channels.settings import MediaDriverSettings

if TYPE_CHECKING:
    from ordo.cluster.module.state.settings import ClusterSettings

MEBIBYTE = 1 << 20
LOG_IMAGES = 4
"""The number of images of the log at a time: replays, live streams, and those of the leader before."""
OTHER_IMAGES = 256
"""Between members, of tools and readers of the log, and of clients that are being redirected."""
OTHER_COUNTERS = 8192
COUNTERS_OF_IMAGE = 4
COUNTERS_OF_SESSION = 10
"""Beside those of its ingress: six of its egress, two of the socket for it, one that names it, one to spare."""
COUNTERS_OF_READER = 20
"""Its replay's and its answers' publication and socket, and the image of its requests."""
COUNTER_VALUE_LENGTH = 128
INGRESS_BYTES = 3 * MEBIBYTE + 4096
"""Mapped for the ingress of a client with the default `term-length`; it takes memory as data comes."""


def driver_bounds(cluster: ClusterSettings, readers_max: int) -> dict[str, Any]:
    """Return the driver's limits, which must suffice for the log and for all clients of one host.

    `readers_max`: the number of replays of log and feeds.
    Buffers and counters are sparse: they take memory as they are used.
    """
    default, sessions_max = MediaDriverSettings, cluster.sessions_max
    images_max = max(default.images_max, sessions_max + sessions_max // 4 + readers_max + OTHER_IMAGES)
    of_clients = COUNTERS_OF_SESSION * sessions_max + (COUNTERS_OF_READER - COUNTERS_OF_IMAGE) * readers_max
    counters_max = OTHER_COUNTERS + COUNTERS_OF_IMAGE * images_max + of_clients
    log_image_bytes = 3 * cluster.log_term_length_bytes + MEBIBYTE
    return {
        "image_term_length_max": max(default.image_term_length_max, cluster.log_term_length_bytes),
        "image_memory_max": max(default.image_memory_max, images_max * INGRESS_BYTES)
        + 2 * LOG_IMAGES * log_image_bytes,
        "image_memory_per_source_max": max(default.image_memory_per_source_max, sessions_max * INGRESS_BYTES)
        + LOG_IMAGES * log_image_bytes,
        "images_max": images_max,
        "images_per_source_max": max(default.images_per_source_max, sessions_max + readers_max + OTHER_IMAGES),
        "counters_values_length": max(default.counters_values_length, COUNTER_VALUE_LENGTH * counters_max),
        "counters_reserved": OTHER_COUNTERS // 4,
    }
