"""What canaries tell of their differences, as a function of records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ordo.cluster.container.tables.difference_table import GROUPS_MAX, DifferenceTable
from ordo.cluster.container.tables.instance_table import LIST_BYTES_MAX
from ordo.cluster.wire.sessions.consumer_codec import CommandKind, ConsumerCommand, decode_command, encode_command
from ordo.cluster.wire.sessions.difference_codec import (
    GROUP_DIFFERENCES_MAX,
    NOT_WRITTEN,
    DifferenceKind,
    DifferenceReport,
    decode_difference,
    encode_difference,
)
from ordo.runtime.errors import SnapshotError


def difference(log_position: int, **changes: Any) -> DifferenceReport:
    first = DifferenceReport(
        "pricing", "canary", 5, 1000, log_position, log_position - 50, 0, 1, 3, DifferenceKind.PAYLOAD, 70, 4,
        b"x" * 60, b"quot",
    )  # fmt: skip
    return first._replace(**changes)


def rows(table: DifferenceTable, after: int = -1, group: str = "pricing") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(table.describe(group, after))
    return found


@pytest.mark.parametrize("length_ns", [1, 1_000])
def test_the_time_of_a_difference_is_told_in_milliseconds(length_ns: int) -> None:
    table = DifferenceTable()
    table.take(difference(100, timestamp=1_772_366_400_123_456_789 // length_ns))
    assert rows(table)[0]["time"] == 1_772_366_400_123


def test_a_difference_is_described() -> None:
    table = DifferenceTable()
    table.take(difference(100))
    nothing = {"kind": DifferenceKind.MISSING, "canary_length": NOT_WRITTEN, "canary": b""}
    table.take(difference(200, output_index=1, **nothing))
    first, second = rows(table)
    assert first == {
        "instance": "canary",
        "version": 3,
        "position": 50,
        "index": 0,
        "difference": "another payload",
        "written": repr(b"x" * 60),
        "written_length": 70,
        "canary": "b'quot'",
        "canary_length": 4,
        "found": 1,
        "time": 1000,
        "log_position": 100,
    }
    assert (second["difference"], second["canary"]) == ("the canary does not write this output", None)
    assert rows(table, after=100) == [second] and rows(table, after=200) == rows(table, group="other") == []


def test_what_is_told_again_takes_the_place_of_what_was() -> None:
    table = DifferenceTable()
    for told in (difference(100), difference(200, input_position=150), difference(300, input_position=50)):
        table.take(told)
    assert [(row["log_position"], row["position"]) for row in rows(table)] == [(200, 150), (300, 50)]
    table.take(difference(400, input_position=50, app_version=4))
    table.take(difference(500, input_position=50, instance="other"))
    assert len(rows(table)) == 4, "of other code, or of another canary, it is another difference"


def test_the_newest_of_each_group_and_the_newest_groups_are_kept() -> None:
    table = DifferenceTable()
    for number in range(1, GROUP_DIFFERENCES_MAX + 11):
        table.take(difference(number * 100))
    assert [one.log_position for one in table.rows("pricing")] == [
        100 * number for number in range(11, GROUP_DIFFERENCES_MAX + 11)
    ]
    for number in range(GROUPS_MAX):
        table.take(difference(100_000 + number, group=f"group{number}"))
    assert table.rows("pricing") == [] and len(table.rows("group0")) == 1
    table.take(difference(200_000, group="group0"))
    table.take(difference(200_001, group="one more"))
    assert len(table.rows("group0")) == 2 and table.rows("group1") == []


def test_a_long_list_comes_in_parts() -> None:
    table = DifferenceTable()
    for number in range(1, 101):
        table.take(difference(number * 100, instance="i" * 128))
    found: list[int] = []
    while part := rows(table, found[-1] if found else -1):
        assert len(json.dumps(part)) < LIST_BYTES_MAX + 600
        found += [row["log_position"] for row in part]
    assert found == [number * 100 for number in range(1, 101)]


def test_a_snapshot_brings_all_back_in_the_same_order() -> None:
    table, restored = DifferenceTable(), DifferenceTable()
    for told in (difference(100), difference(200, group="other"), difference(300), difference(400, input_position=50)):
        table.take(told)
    restored.restore(table.snapshot())
    assert rows(restored) == rows(table) and list(restored.snapshot()) == list(table.snapshot())
    with pytest.raises(SnapshotError, match="difference of a canary"):
        restored.restore([b"\0" * 88])


def test_bytes_that_make_no_sense_are_no_difference() -> None:
    record = encode_difference(difference(100), 1)
    assert decode_difference(record) == difference(100)
    for cut in range(len(record)):
        assert decode_difference(record[:cut]) is None
    assert decode_difference(record + b"x") is None
    for changes in ({"group": ""}, {"group": "g" * 65}, {"instance": "i" * 129}, {"written_length": -2}, {"kind": 4}):
        assert decode_difference(encode_difference(difference(100, **changes), 1)) is None
    for offset in range(56, 84, 4):  # the output's index, version, kind and lengths
        for value in (-(2**31), 2**31 - 1):
            changed = bytearray(record)
            changed[offset : offset + 4] = value.to_bytes(4, "little", signed=True)
            found = decode_difference(bytes(changed))
            assert found is None or offset < 64 or (offset == 68 and found.written_length == 2**31 - 1)
    changed = bytearray(record)
    changed[88] = 0xFF  # the group is no UTF-8
    assert decode_difference(bytes(changed)) is None


def test_differences_are_asked_for_by_any_name_that_a_group_may_have() -> None:
    asked = ConsumerCommand(CommandKind.DIFFERENCES, "Preise für Öl", position=7)
    assert decode_command(encode_command(asked, 1, 5)) == asked
    assert decode_command(encode_command(asked._replace(kind=CommandKind.DESCRIBE), 1, 5)) is None
