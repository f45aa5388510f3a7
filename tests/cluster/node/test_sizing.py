"""`ordo size`: what it computes is what a cluster does, and what docs/SIZING.md and docs/PERFORMANCE.md say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ordo.cluster.checks.requirements import (
    MEMORY_OF_SUBSCRIBER_BYTES,
    clients_that_fit,
    files_wanted,
    memory_used_bytes,
)
from ordo.cluster.checks.sizing import (
    REQUEST_ALONE_US,
    REQUEST_HEADER_BYTES,
    REQUEST_TOGETHER_US,
    Load,
    needs_of,
)
from ordo.cluster.client.session import ClusterClient
from ordo.cluster.client.settings import ClientSettings
from ordo.cluster.monitoring.counters import leader_progress
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.init import write_cluster
from ordo.runtime.errors import ConfigurationError
from ordo.transport.streams.logbuffer import framed_bytes
from tests.cluster.integration.agreement import await_value
from tests.cluster.integration.command import demand_one_line, ordo
from tests.snippets import blocks_of

DAY_S = 86_400
EVIDENCE_BYTES = 1 << 30
CONTROL_BYTES = 2 * (3 * (64 << 10) + 4096)
READERS_BYTES = 32 * (3 * (256 << 10) + 4096 + CONTROL_BYTES) + 4 * CONTROL_BYTES
RETRY_S = 60.0
"""A request that a busy machine keeps waiting is not sent a second time, which would be in the log, too."""
LENGTHS_BYTES = (1, 8, 9, 100, 1_000, 1_320, 1_321, 4_000)


@pytest.fixture
def config(tmp_path: Path) -> NodeSettings:
    return load_config(write_cluster(tmp_path, hosts=("a", "b", "c"), is_encrypted=False).configs[0])


@pytest.mark.slow
def test_the_log_grows_by_as_much_as_is_computed(tmp_path: Path) -> None:
    with LocalCluster("ordo.bench.loads.echo:Echo", root=tmp_path, member_count=1, sync="none") as cluster:
        folder = cluster.aeron_dir(cluster.await_leader())
        mtu_bytes = load_config(cluster.config_path(0)).cluster.mtu_bytes

        def executed() -> int | None:
            progress = leader_progress(folder)
            return progress.committed if progress is not None and progress.executed == progress.committed else None

        with ClusterClient(
            cluster.ingress_endpoints, settings=ClientSettings(request_retry_interval_s=RETRY_S)
        ) as client:
            client.request(b"the identity is in the log now")
            for length in LENGTHS_BYTES:
                before = await_value(executed, "all executed")
                client.request(bytes(length))
                grown = await_value(executed, "all executed") - before
                assert grown == framed_bytes(REQUEST_HEADER_BYTES + length, mtu_bytes), length


def test_needs_follow_from_settings_and_load(config: NodeSettings) -> None:
    load = Load(1000, 256, answer_bytes=16, kept_days=2, state_bytes=1 << 30)
    needs = {need.subject: need for need in needs_of(config, load)}
    assert needs["log"].amount == needs["leader receives"].amount == 352_000
    kept = max(2 * DAY_S * 352_000, 10 << 30) + (64 << 20) + (1 << 30)
    assert needs["disk"].amount == kept + 3 * (1 << 30) + EVIDENCE_BYTES + (256 << 20)
    assert needs["shared memory"].amount == (8 << 20) + 3 * 6 * (16 << 20) + READERS_BYTES
    assert needs["leader sends"].amount == 2 * 352_000 + 1000 * 128
    by_retention = {need.subject: need for need in needs_of(config, load._replace(kept_days=0))}
    assert by_retention["disk"].amount - needs["disk"].amount == 5 * DAY_S * 352_000
    forever = config.model_copy(update={"retention": type(config.retention)()})
    (disk,) = (need for need in needs_of(forever, load._replace(kept_days=0)) if need.subject == "disk")
    assert disk.amount == DAY_S * 352_000 + (64 << 20) + 4 * (1 << 30) + EVIDENCE_BYTES + (256 << 20)
    assert "all stays" in disk.reason


def test_readers_of_feeds_count_where_they_are_served(config: NodeSettings) -> None:
    deaf = config.model_copy(update={"node": config.node.model_copy(update={"max_replays": 0})})
    assert memory_used_bytes(deaf) == (8 << 20) + 3 * 2 * (16 << 20)
    assert memory_used_bytes(config) - memory_used_bytes(config.with_subscribers(31)) == MEMORY_OF_SUBSCRIBER_BYTES
    wanted = files_wanted(config)
    assert clients_that_fit(config, wanted) == (4096, 32)
    assert clients_that_fit(config, wanted - 1) == (4095, 32)
    assert clients_that_fit(config, 1024) == (1024 - 48 - 2 * 4 - 4 * 32, 32)
    assert clients_that_fit(config, 64) == (4, 1), "feeds do not keep sessions out"
    assert clients_that_fit(config.with_subscribers(0), 64) == (8, 0)
    with pytest.raises(ConfigurationError, match=f"raise it to {wanted} for max_sessions = 4096 and max_subscribers"):
        clients_that_fit(config, 51)


def test_the_processor_time_is_what_was_measured() -> None:
    page = (ROOT / "docs" / "PERFORMANCE.md").read_text()
    together = re.search(r"^\| `request_many`.*\| [\d.]+ to ([\d.]+) us \|[^|]*\|$", page, re.MULTILINE)
    alone = re.search(r"^\| request, one on the way.*\| [\d.]+ to ([\d.]+) us \|[^|]*\|$", page, re.MULTILINE)
    assert together is not None and float(together[1]) == REQUEST_TOGETHER_US
    assert alone is not None and float(alone[1]) == REQUEST_ALONE_US


def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    commands, printed = (block.text for block in blocks_of((ROOT / "docs" / "SIZING.md").read_text()))
    made, asked = (line.partition(" > ")[0].split() for line in commands.splitlines())
    places = {"conf": str(tmp_path), "conf/node0.toml": str(tmp_path / "node0.toml")}
    assert ordo(*(places.get(word, word) for word in made[1:])).returncode == 0
    shown = ordo(*(places.get(word, word) for word in asked[1:])).stdout
    assert [line.rstrip() for line in shown.splitlines()] == printed.splitlines()


def test_a_length_that_is_none_is_one_line(tmp_path: Path) -> None:
    config = write_cluster(tmp_path).configs[0]
    done = ordo("size", "--config", str(config), "--requests", "1", "--length", "2x")
    demand_one_line(done, 2, "--length 2x", "64k")
