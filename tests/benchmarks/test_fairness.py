"""The comparison of a client of few messages beside a flood: its settings are taken, and its table can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomlkit

from benchmarks.fairness import describe, list_rows
from ordo.cluster.settings.config import load_config


@pytest.mark.parametrize("name", list(list_rows()))
def test_the_settings_of_a_row_are_taken(name: str, tmp_path: Path) -> None:
    row = list_rows()[name]
    content = {
        "node": {"member_id": 0, "data_dir": str(tmp_path)},
        "members": [{"id": 0, "host": "127.0.0.1", "port": 20000}],
        "cluster": dict(row.cluster),
        **row.tables,
    }
    path = tmp_path / "node.toml"
    path.write_text(tomlkit.dumps(content))
    module = load_config(path).module_config()
    assert module.quotas.bounds_anything == (name == "quota")
    assert [one.first for one in module.principals] == [True] * (name == "first lane")


def test_the_table() -> None:
    lines = describe({"alone": {"p50_ms": 0.31, "p99_ms": 6.2, "flood_per_s": 0.0}})
    assert lines[-1] == "| alone | 0.3 | 6.2 | 0 |"
