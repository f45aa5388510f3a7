"""Clusters of real processes for the tests in this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from deploy.launcher import LocalCluster

LEDGER = "tests.cluster.integration.services:Ledger"
StartCluster = Callable[..., LocalCluster]


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts a cluster of the ledger (or another service) and waits for its leader; it is stopped after the test."""
    with ExitStack() as stack:

        def start(service: str = LEDGER, **options: Any) -> LocalCluster:
            cluster = stack.enter_context(LocalCluster(service, root=tmp_path / "cluster", **options))
            cluster.await_leader(60)
            return cluster

        yield start
