"""Items between a poll and a loop belong to the reader (docs/LOG.md, docs/ARCHIVE.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from ordo.runtime.polled_items import PolledItems, PolledMessages


def polled(count: int) -> PolledItems[int]:
    items: PolledItems[int] = PolledItems()
    for item in range(count):
        items.append(item)
    return items


def test_items_are_handed_out_in_order_one_by_one_and_many_at_once() -> None:
    items = polled(6)
    assert items.first == items.take() == items.last == 0
    got: list[int] = []
    assert items.hand_out(got.append, 3) == 3
    assert got == [1, 2, 3]
    assert items.hand_out(got.append, 10) == 2
    assert (got, len(items), items.first, items.last) == ([1, 2, 3, 4, 5], 0, None, 5)
    assert items.hand_out(got.append, 10) == 0


def test_an_item_whose_handler_raises_counts_as_handed_out() -> None:
    items = polled(2)
    with pytest.raises(ZeroDivisionError):
        items.hand_out(lambda item: 1 // item, 2)
    assert (items.last, items.first) == (0, 1)


def test_an_item_is_taken_from_a_poll_only_where_none_waits() -> None:
    items: PolledItems[int] = PolledItems()
    batches = [[1, 2], [3]]

    def poll(append: Callable[[int], object]) -> None:
        for item in batches.pop(0) if batches else []:
            append(item)

    assert [items.take_from(poll) for _ in range(2)] == [1, 2]
    assert batches == [[3]]
    assert [items.take_from(poll) for _ in range(2)] == [3, None]


class Ended(NamedTuple):
    position: int


def test_a_position_is_that_of_what_was_handed_out() -> None:
    messages: PolledMessages[Ended] = PolledMessages(64)
    assert messages.position(64) == 64
    messages.append(Ended(128))
    messages.append(Ended(192))
    assert messages.position(192) == 64
    messages.take()
    assert messages.position(192) == 128
    messages.take()
    assert messages.position(256) == 256, "what was passed over counts once nothing waits"


def test_where_a_reader_begins_may_not_be_known_yet() -> None:
    messages: PolledMessages[Ended] = PolledMessages(None)
    assert messages.position(None) is None
    messages.append(Ended(128))
    assert messages.position(128) is None
