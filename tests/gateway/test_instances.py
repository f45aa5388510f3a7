"""An instance of an application as the gateway tells of it: what `ordo apps` has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ordo.cluster.container.tables.instance_table import InstanceTable
from ordo.cluster.wire.sessions.instance_codec import NOT_COUNTED, InstanceReport, ReportFlag, encode_refused
from ordo.gateway.services.consumer_calls import _instance


@pytest.mark.parametrize(
    ("counted", "told", "is_exact"), [((1 << 40) + 1, (1 << 40) + 1, True), (NOT_COUNTED, 64, False), (0, 0, True)]
)
def test_refused_outputs_are_counted(counted: int, told: int, is_exact: bool) -> None:
    """Exactly, but where a log of an earlier protocol level has no room for it."""
    flags = ReportFlag.ACTIVE | (ReportFlag.REFUSED | encode_refused(70) if counted else ReportFlag.NONE)
    table = InstanceTable()
    table.take(InstanceReport("pricing", "host", 7, 1000, 500, 8, 7, 1, flags, 2, counted))
    (row,) = json.loads(table.describe(-1, 640, 1250))
    one: Any = _instance({**row, "version": "1", "newest_version": "2"})
    assert (one.outputs_refused, one.is_refused_exact, one.is_active) == (told, is_exact, True)
