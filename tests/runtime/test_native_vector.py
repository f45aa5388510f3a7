"""The growing array of the native code, against a Python list, and at its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordo.runtime.native.native_vector import NativeVector
from tests.runtime.vector_probe import VectorProbe

STEPS = st.tuples(
    st.sampled_from(["append", "try_insert", "remove_at", "swap_remove_at", "truncate", "reserve"]),
    st.integers(0, 40),
    st.integers(1, 2**63 - 1),
)


def apply(model: list[int], vector: VectorProbe, step: str, number: int, value: int) -> None:
    """Does the same to both. Numbers are taken as an index into what is there."""
    if step == "append":
        assert vector.append(value) == 0
        model.append(value)
    elif step == "try_insert":
        index = number % (len(model) + 1)
        assert vector.try_insert(index, value) == 0
        model.insert(index, value)
    elif step == "reserve":
        vector.reserve(number)
        assert vector.capacity >= number
    elif step == "truncate":
        vector.truncate(number)
        del model[number:]
    elif model and step == "remove_at":
        vector.remove_at(number % len(model))
        del model[number % len(model)]
    elif model:
        vector.swap_remove_at(number % len(model))
        model[number % len(model)] = model[-1]
        del model[-1]


@given(st.lists(STEPS, max_size=60))
def test_a_vector_holds_what_a_list_holds(steps: list[tuple[str, int, int]]) -> None:
    model: list[int] = []
    vector = VectorProbe()
    for step, number, value in steps:
        apply(model, vector, step, number, value)
        assert vector.values() == model


def test_capacity_doubles_and_stops_at_the_limit() -> None:
    vector = VectorProbe(count_max=11)
    capacities = []
    for value in range(11):
        vector.append(value)
        capacities.append(vector.capacity)
    assert capacities == [4, 4, 4, 4, 8, 8, 8, 8, 11, 11, 11]


def test_a_full_vector_refuses_more_and_keeps_what_it_has() -> None:
    vector = VectorProbe(count_max=2)
    assert vector.try_append(7) and vector.try_append(8)
    assert not vector.try_append(9)
    assert vector.try_insert(0, 9) is None
    assert not vector.try_reserve(3)
    with pytest.raises(MemoryError, match=r"no room for 3 items of 8 bytes: capacity=2 count_max=2"):
        vector.append(9)
    assert vector.values() == [7, 8]
    vector.remove_at(0)
    assert vector.try_append(9) and vector.values() == [8, 9]


@pytest.mark.parametrize("capacity", [2**60, 2**62, 2**63 - 1])
def test_a_size_beyond_64_bits_is_refused_before_memory_is_asked_for(capacity: int) -> None:
    vector = VectorProbe()
    vector.append(5)
    assert not vector.try_reserve(capacity)
    with pytest.raises(MemoryError, match=f"no room for {capacity} items"):
        vector.reserve(capacity)
    assert (vector.values(), vector.capacity) == ([5], 4)


def test_what_memory_does_not_hold_is_refused() -> None:
    vector = VectorProbe()
    vector.append(5)
    assert not vector.try_reserve(2**58)
    assert vector.values() == [5]


def test_sizes_of_a_new_vector_are_checked() -> None:
    assert (NativeVector(24).count_max, NativeVector(24, 5).count_max) == ((2**63 - 1) // 24, 5)
    with pytest.raises(ValueError, match="item_bytes=0, at least 1"):
        NativeVector(0)
    with pytest.raises(ValueError, match="count_max=-1, from 0 to"):
        NativeVector(8, -1)
    with pytest.raises(ValueError, match="count_max=9223372036854775807, from 0 to 1152921504606846975"):
        NativeVector(8, 2**63 - 1)
