"""Messages with types beside SBE's own Java tool: it takes the schema that Ordo writes, and reads the same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordo.messages import encode
from ordo.service_api.messages.schema_xml import to_xml
from tests.peers.test_sbe_tool import sbe_tool
from tests.service_api.messages.orders import NEW, Leg, Order, Party, Side

__all__ = ["sbe_tool"]


@pytest.mark.peers
def test_the_java_tool_reads_what_classes_wrote(
    sbe_tool: Callable[[Path, list[bytes]], list[dict[str, Any]]], tmp_path: Path
) -> None:
    schema = tmp_path / "schema.xml"
    schema.write_text(to_xml(NEW))
    orders = [
        Order(7, Side.SELL, 500, True, [Leg(1, -2, [Party(9)], "note")], [Party(4)], "text", b"\0\1"),
        Order(1 << 62, Side.BUY, 0, False),
    ]
    first, second = sbe_tool(schema, [encode(order) for order in orders])
    assert (first["account"], first["side"], first["quantity"], first["urgent"]) == (7, "SELL", 500, "T")
    assert [(leg["instrument"], leg["ratio"], leg["note"]) for leg in first["legs"]] == [(1, -2, "note")]
    assert [one["party_id"] for leg in first["legs"] for one in leg["parties"]] == [9]
    assert ([one["party_id"] for one in first["tags"]], first["note"]) == ([4], "text")
    assert (second["account"], second["side"], second["legs"], second["note"]) == (1 << 62, "BUY", [], "")
