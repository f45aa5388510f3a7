"""Items between a poll and a loop belong to the reader (docs/LOG.md, docs/ARCHIVE.md)."""

from __future__ import annotations

import pytest

from runtime.polled_items import PolledItems


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
