"""What a watch writes, byte by byte."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from ordo.gateway.watching.channels import EventStream
from ordo.gateway.watching.watched_items import WatchedItem


def written(item: WatchedItem) -> bytes:
    chunks: list[bytes] = []

    async def write(chunk: bytes) -> None:
        chunks.append(chunk)

    stream = EventStream(cast(Any, None), {})
    stream.response = cast(Any, SimpleNamespace(write=write))
    asyncio.run(stream.send_items([item]))
    return b"".join(chunks)


def fields_of(text: str) -> dict[str, str]:
    """As a library reads them that hands out an event whose end it has not seen."""
    lines = (line.partition(":") for line in text.split("\n") if line)
    return {name: value.removeprefix(" ") for name, _, value in lines}


def test_no_part_of_an_event_has_its_id_without_all_of_its_data() -> None:
    data = {"sequence": 12_345, "payload": "100", "encoding": "utf-8"}
    event = written(WatchedItem(12_345, json.dumps(data))).decode()
    assert fields_of(event) == {"event": "message", "data": json.dumps(data), "id": "12345"}
    with_id = [part for part in (event[:end] for end in range(len(event))) if "id" in fields_of(part)]
    assert with_id, "the id comes last"
    assert all(json.loads(fields_of(part)["data"]) == data for part in with_id)


def test_data_that_is_cut_is_no_json() -> None:
    event = written(WatchedItem(7, json.dumps({"sequence": 7, "payload": "1200"}))).decode()
    begin, end = event.index("data: ") + len("data: "), event.index("\nid:")
    for cut in range(begin, end):
        try:
            json.loads(event[begin:cut])
        except json.JSONDecodeError:
            continue
        raise AssertionError(f"{event[begin:cut]!r} could be taken for the whole")
