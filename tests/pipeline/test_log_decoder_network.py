"""Decoder `log` over the network: the schemas of the log that nodes serve, and of their snapshots."""

from __future__ import annotations

from pathlib import Path

import ordo
from tests.pipeline.served import ServedFolder, url
from tests.pipeline.typed_logs import event, logged, write_log, write_snapshot
from tests.service_api.messages.typed import FIRST, SECOND, Position, PositionWithCents


def test_nodes_have_the_schemas(tmp_path: Path) -> None:
    """The first is in a snapshot alone, as where the log was let go; the second is behind it."""
    folder = write_log(tmp_path, [Position(1), event(SECOND), PositionWithCents(2, 20)])
    write_snapshot(folder, 96, [logged(FIRST, 0)])
    served = ServedFolder(folder)
    try:
        there = ordo.read(url(served), decoder="log", kinds="message").to_arrow()
    finally:
        served.close()
    here = ordo.read(folder, decoder="log", kinds="message").to_arrow()
    assert there.drop_columns(["recording", "node"]) == here.drop_columns(["recording", "node"])
    assert [row["account"] for row in there["Position_1"].to_pylist()] == [1, 2]
