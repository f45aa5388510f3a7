"""Clusters of real processes for the tests in this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.deploy.launcher import LocalCluster
from tests.cluster.integration.protocol import REQUEST, Kind
from tests.clusters import PATIENT, STEADY, ready_cluster
from tests.shared_clusters import SHARED, LendCluster

LEDGER = "tests.cluster.integration.services:Ledger"
StartCluster = Callable[..., LocalCluster]
BANK = "tests.cluster.integration.requests_service:Bank"
RESETS = {LEDGER: REQUEST.pack(Kind.RESET, 0, 0), BANK: b'{"reset": 1}'}
"""Service -> the request at which it forgets what it has executed."""
__all__ = ["BANK", "LEDGER", "PATIENT", "LendCluster", "StartCluster"]


@contextmanager
def clusters_of(default_service: str, root: Path) -> Iterator[StartCluster]:
    """Gives what starts a cluster of a service and waits until all its members follow; all are stopped then."""
    with ExitStack() as stack:

        def start(service: str = default_service, **options: Any) -> LocalCluster:
            return stack.enter_context(ready_cluster(service, heartbeat=STEADY, root=root, **options))

        yield start


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts a cluster of the ledger (or another service), and waits until all members follow; stopped in the end."""
    with clusters_of(LEDGER, tmp_path / "cluster") as start:
        yield start


@pytest.fixture
def lend_cluster(request: pytest.FixtureRequest) -> Iterator[LendCluster]:
    """Gives a cluster of the ledger (or another service) that other tests have had and will have; see its module.

    Ledgers and banks begin anew. Those of other services have executed what others sent.
    """
    failed_before = request.session.testsfailed
    with SHARED.guarded(LEDGER, lambda: request.session.testsfailed > failed_before) as lend:

        def lend_anew(service: str = LEDGER, **options: Any) -> LocalCluster:
            cluster = lend(service, **options)
            if service in RESETS:
                settings = ClientSettings(**cluster.client_keys, message_timeout_s=30)
                with ClusterClient(cluster.ingress_endpoints, settings=settings) as client:
                    client.send(RESETS[service], until="executed")
            return cluster

        yield lend_anew
