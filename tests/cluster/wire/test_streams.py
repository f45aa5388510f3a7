"""Streams over shared memory of clusters that share a driver."""

from __future__ import annotations

from itertools import combinations

import pytest

from ordo.cluster.wire.streams import SERVICES_MAX, SEVERAL_SERVICES_CLUSTER_ID_MAX, own_streams, service_stream

HIGHEST = SEVERAL_SERVICES_CLUSTER_ID_MAX
CLUSTER_IDS = (0, 1, 2, 8, 9, 10, 1 << 20, (1 << 20) + 1, HIGHEST // 2, HIGHEST - 1, HIGHEST)


def test_clusters_that_share_a_driver_have_no_stream_in_common() -> None:
    for one, other in combinations(CLUSTER_IDS, 2):
        assert not own_streams(one) & own_streams(other), (one, other)


@pytest.mark.parametrize("cluster_id", [-1, HIGHEST + 1, (1 << 31) - 1])
def test_the_services_of_a_cluster_with_any_id_meet_no_stream_of_one_with_a_single_service(cluster_id: int) -> None:
    of_services = {service_stream(kind, cluster_id, one) for kind in (104, 105, 109) for one in range(1, SERVICES_MAX)}
    assert len(of_services) == 3 * (SERVICES_MAX - 1)
    assert all(1 <= one % 16 <= 3 for one in of_services)
    assert all(not 1 <= one % 16 <= 3 for one in own_streams(cluster_id) - of_services)


def test_service_0_has_the_plain_streams() -> None:
    assert [service_stream(kind, 0, 0) for kind in (104, 105, 109)] == [104, 105, 109]
