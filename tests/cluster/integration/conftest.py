"""Clusters of real processes for the tests in this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ordo.deploy.launcher import LocalCluster
from tests.patience import factor

LEDGER = "tests.cluster.integration.services:Ledger"
StartCluster = Callable[..., LocalCluster]
PATIENT = {"leader_heartbeat_timeout": f"{round(10 * min(3.0, factor()))}s"}
"""For a cluster in which one member leads all the time, however busy the machine."""


@contextmanager
def clusters_of(default_service: str, root: Path) -> Iterator[StartCluster]:
    """Gives what starts a cluster of a service and waits for its leader; those that it started are stopped then."""
    with ExitStack() as stack:

        def start(service: str = default_service, **options: Any) -> LocalCluster:
            cluster = stack.enter_context(LocalCluster(service, root=root, **options))
            cluster.await_leader(60)
            return cluster

        yield start


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts a cluster of the ledger (or another service) and waits for its leader; it is stopped after the test."""
    with clusters_of(LEDGER, tmp_path / "cluster") as start:
        yield start
