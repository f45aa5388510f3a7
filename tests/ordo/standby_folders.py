"""Folders of standbys whose process has ended."""

from __future__ import annotations

import pytest

from ordo.backup.folder import CLUSTER, write_json
from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.settings.config import NodeSettings
from ordo.standby.folder import prepare

pytest.importorskip("ordo.pipeline.decoding.synthetic", reason="the pipeline is not compiled for this Python")
from ordo.pipeline.generate import LogShape, generate_log


def make_log(config: NodeSettings, messages: int, terms: int = 1) -> int:
    """Make an archive with a log of so many messages; return its recording's id."""
    return generate_log(str(config.archive_dir), LogShape(messages=messages, terms=terms)).recording_id


def give_log(config: NodeSettings) -> None:
    """Make the folder of a standby with a log of 50 messages, in two terms, and of a primary that nobody asks."""
    prepare(config)
    recording_id = make_log(config, messages=50, terms=2)
    with open_stopped(config) as store:
        store.put_log_recording(recording_id)
    write_json(config.node.data_dir / CLUSTER, {"endpoints": ["10.0.0.1:20000"]})
