"""Level and format of a node's log: as its configuration says, and again at SIGUSR1, while it runs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ordo.cli import run
from tests.cluster.integration.command import demand_one_line, ordo
from tests.clusters import ready_cluster

pytestmark = pytest.mark.slow


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_log_follows_its_settings_while_the_node_runs(tmp_path: Path) -> None:
    options = {"log_level": "warning", "log_format": "json"}
    with ready_cluster(
        "ordo.bench.loads.echo:Echo", member_count=1, sync="none", root=tmp_path, node=options
    ) as cluster:
        config, log = cluster.config_path(0), tmp_path / "0.log"

        def read_again() -> None:
            os.kill(cluster.pid(0), signal.SIGUSR1)

        def take_snapshot() -> None:
            assert run(["cluster", "snapshot", "--config", str(config)]) == 0

        def snapshots() -> int:
            return len(list(cluster.log_events(0, "cluster.snapshot")))

        def settings() -> list[tuple[object, object]]:
            found = cluster.log_events(0, "node.log_settings")
            return [(one.get("log_level"), one.get("log_format", one.get("text"))) for one in found]

        assert list(cluster.log_events(0, "node.start")) == [], "it is below the level"
        take_snapshot()
        rewrite(config, 'log_level = "warning"', 'log_level = "info"')
        read_again()
        cluster.await_value(lambda: settings() == [("info", "json")] or None, "the new level")
        assert snapshots() == 0, "it was below the level"
        take_snapshot()
        cluster.await_value(lambda: snapshots() == 1 or None, "a line of the snapshot")

        rewrite(config, 'log_level = "info"', 'log_level = "loud"')
        read_again()
        cluster.await_value(lambda: len(settings()) == 2 or None, "why nothing was changed")
        assert "log_level" in str(settings()[1][1])
        rewrite(config, 'log_level = "loud"', 'log_level = "error"')
        take_snapshot()
        cluster.await_value(lambda: snapshots() == 2 or None, "a line, since nothing was changed")
        rewrite(config, 'log_format = "json"', 'log_format = "text"')
        read_again()
        cluster.await_value(lambda: "log_format=text" in log.read_text() or None, "a line of text")
        before = log.read_text()
        take_snapshot()
        assert cluster.stop(0) == 0
        assert "snapshot taken" not in log.read_text().removeprefix(before)


def test_wrong_settings_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        f'[node]\nmember_id = 0\ndata_dir = "{tmp_path}"\nlog_format = "xml"\n'
        '[[members]]\nid = 0\nhost = "127.0.0.1"\nport = 20000\n'
    )
    demand_one_line(ordo("node", "--config", str(path), "--service", "a:B"), 2, "log_format", "xml", "json")
