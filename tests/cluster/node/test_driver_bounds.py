"""What a node's driver may take: enough for all sessions that are allowed (docs/CLIENT.md, Many sessions)."""

from __future__ import annotations

import pytest

from ordo.cluster.module.state.settings import ClusterSettings
from ordo.cluster.node.driver_bounds import COUNTERS_OF_IMAGE, COUNTERS_OF_READER, driver_bounds
from ordo.transport.driver.channels.settings import MediaDriverSettings

COUNTERS_MEASURED = 14
"""Of one session on the leader: four of its ingress, six of its egress, two of the socket, its own, one to spare."""


@pytest.mark.parametrize("readers_max", [0, 36, 320])
@pytest.mark.parametrize("sessions_max", [1, 620, 4096, 200_000])
def test_counters_suffice_for_all_clients_beside_all_other_images(sessions_max: int, readers_max: int) -> None:
    bounds = driver_bounds(ClusterSettings(max_sessions=sessions_max), readers_max)
    counters = bounds["counters_values_length"] // 128
    others = (bounds["images_max"] - sessions_max - readers_max) * COUNTERS_OF_IMAGE
    of_clients = sessions_max * COUNTERS_MEASURED + readers_max * COUNTERS_OF_READER
    assert counters - of_clients - others >= bounds["counters_reserved"] + COUNTERS_OF_IMAGE
    assert bounds["images_per_source_max"] > sessions_max + readers_max, "one host may have all clients"
    assert bounds["image_memory_per_source_max"] >= sessions_max * 3 * (1 << 20)
    MediaDriverSettings(directory="/nowhere", **bounds)


def test_what_is_not_asked_for_stays_as_it_was() -> None:
    bounds = driver_bounds(ClusterSettings(max_sessions=1), 36)
    for name in ("image_term_length_max", "images_max", "images_per_source_max"):
        assert bounds[name] == getattr(MediaDriverSettings, name)
