"""The fuzzer sees what is planted, repeats itself, and every kept input still goes through its door."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Hashable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.__main__ import CORPUS, DOORS
from tests.fuzz.driver_doors import Finding
from tests.fuzz.engine import (
    INPUT_LENGTH_MAX,
    STEPS_MAX,
    Fields,
    Fuzzer,
    mutate,
    mutate_steps,
    name_of,
    pack,
    read_corpus,
    unpack,
)
from tests.fuzz.forked import run_forked


class Planted:
    """A decoder that believes a length, behind two bytes that have to be found one after the other."""

    name = "planted"

    def seeds(self) -> list[bytes]:
        return [bytes(8)]

    def run(self, data: bytes) -> Hashable:
        depth = 0
        for expected, actual in zip(b"FZ", data, strict=False):
            if expected != actual:
                return depth
            depth += 1
        length = int.from_bytes(data[4:8], "little", signed=True)
        if depth == 2 and length > len(data):
            raise IndexError(f"length={length}")
        return depth


class Told:
    """What a run says are its bytes."""

    name = "told"

    def seeds(self) -> list[bytes]:
        return [b"aa"]

    def run(self, data: bytes) -> Hashable:
        return tuple(data)


SHORT_RUN_S = 1.0
"""Of each door, with its corpus; `make fuzz` takes ten minutes for each."""


def fuzz_planted(seed: int) -> tuple[int, bytes]:
    last = [b""]
    fuzzer = Fuzzer(Planted(), seed, [], lambda data: last.__setitem__(0, data))
    for _ in range(200_000):
        try:
            fuzzer.step()
        except IndexError:
            return fuzzer.runs, last[0]
    raise AssertionError("not found")


def test_what_is_planted_is_found_and_by_one_seed_always_the_same() -> None:
    runs, data = fuzz_planted(5)
    assert data[:2] == b"FZ"
    assert runs < 100_000, "both bytes at once, by chance, would take millions"
    assert fuzz_planted(5) == (runs, data)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_program(data: bytes) -> None:
    steps = unpack(data)
    assert all(0 <= kind < 256 for kind, _ in steps)
    assert unpack(pack(steps)) == steps


@given(st.integers(0, 1 << 32), st.binary(max_size=5000))
def test_mutants_are_bounded(seed: int, data: bytes) -> None:
    assert len(mutate(Random(seed), data, [data, b""])) <= INPUT_LENGTH_MAX


@given(st.integers(0, 1 << 32), st.binary(max_size=300))
def test_steps_stay_whole(seed: int, data: bytes) -> None:
    """What is drawn, left out and repeated are steps, so that a program goes as deep as the one that it was made of."""
    drawn = 7, b"drawn step"
    program = pack(unpack(data))
    changed = unpack(mutate_steps(Random(seed), program, [program, pack([drawn] * 3)], lambda random: drawn))
    assert len(changed) <= STEPS_MAX
    known = [*unpack(program), drawn]
    assert len({step for step in changed if step not in known}) <= 4, "at most so many steps were changed themselves"


@given(st.binary(max_size=8), st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_bytes_are_fields(data: bytes, value: int) -> None:
    fields = Fields(data)
    assert fields.choose("ab") in "ab"
    fields.near(value)
    assert Fields(b"").near(value) == value
    assert fields.rest() == data[2:]


def test_a_part_of_what_a_run_says_is_new_only_once() -> None:
    fuzzer = Fuzzer(Told(), 1, [], lambda data: None)
    assert [fuzzer._try(data) for data in (b"ab", b"bb", b"aa", b"ba", b"cb")] == [True, True, False, False, True]


def test_a_copy_of_the_process_is_what_it_was_at_first() -> None:
    counted: list[int] = []

    def run() -> int:
        counted.append(1)
        return len(counted)

    assert run_forked(run) == run_forked(run) == 1
    with pytest.raises(Finding, match="beyond"):
        run_forked(lambda: dict[str, int]()["beyond"])
    with pytest.raises(Finding, match="exit status -9"):
        run_forked(lambda: os.kill(os.getpid(), signal.SIGKILL))


@pytest.mark.parametrize("door", DOORS)
def test_every_kept_input_goes_through_its_door(door: str) -> None:
    made = DOORS[door]()
    try:
        inputs = [*made.seeds(), *read_corpus(CORPUS / door)]
        assert len(inputs) >= 5
        for data in inputs:
            made.run(data)
        assert made.run(inputs[0]) == made.run(inputs[0]), "a finding can be repeated"
    finally:
        if hasattr(made, "close"):
            made.close()


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_short_run_of_each_door_finds_nothing(door: str, tmp_path: Path) -> None:
    """What ended it is in the file that is named with the failure."""
    made, trace = DOORS[door](), tmp_path / door
    try:
        fuzzer = Fuzzer(made, 1, read_corpus(CORPUS / door), trace.write_bytes)
        ends_s = time.monotonic() + SHORT_RUN_S
        while time.monotonic() < ends_s:
            fuzzer.step()
    except Exception as error:
        error.add_note(f"again: python -m tests.fuzz {door} --replay {trace}")
        raise
    finally:
        if hasattr(made, "close"):
            made.close()


def test_the_corpus_is_named_by_what_it_holds() -> None:
    for path in CORPUS.glob("*/*"):
        assert path.name == name_of(path.read_bytes())
        assert path.parent.name in DOORS
