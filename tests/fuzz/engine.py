"""A mutational fuzzer, guided by coverage where there is one, and by what a door says of each run.

Python's own coverage-guided fuzzers see Python only. What has to be seen here is native: modules built with
`ORDO_SANITIZE=1` count the edges they take (coverage.c), and an input that takes a new one is kept and mutated further.
Without such a build the door's own signature (counters, kinds of errors) takes its place. One seed, one build: one run.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar, runtime_checkable

EDGES = 1 << 16
INPUT_LENGTH_MAX = 4096
POOL_MAX = 2000
STEPS_MAX = 64
STEP_CHANGES = 0.9
"""How often steps of a program are changed as wholes, and not its bytes."""
_BUCKETS = bytes((1 << min(n if n < 4 else n.bit_length() + 1, 8)) - 1 for n in range(256))
"""How often an edge was taken, roughly: each bit stands for more than the one below it, and comes with all of these."""
_INTEGERS = (0, 1, -1, 2, 7, 8, 31, 32, 33, 64, 127, 128, 255, 4096, 65535, 65536, 1 << 24, 0x7FFFFF00)
_EDGE_INTEGERS = (*_INTEGERS, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))


class Door(Protocol):
    """What takes bytes from outside. `run` raises for a finding; what it returns tells like runs from unlike ones: a
    tuple or frozenset by whether any of its parts was there in a run before."""

    name: str

    def seeds(self) -> list[bytes]:
        """Valid inputs to begin with."""
        ...

    def run(self, data: bytes) -> Hashable:
        """Takes one input; another run of the same input does the same."""
        ...


@runtime_checkable
class StepDoor(Door, Protocol):
    """A door to something that lives on: its input is a program, whose steps it can invent."""

    def draw(self, random: Random) -> tuple[int, bytes]:
        """One step that may well be valid."""
        ...


def find_edges() -> ctypes.Array[ctypes.c_uint8] | None:
    """The counts that instrumented modules keep in this process; None when they were built without it."""
    with contextlib.suppress(ValueError):
        return (ctypes.c_uint8 * EDGES).in_dll(ctypes.CDLL(None), "ordo_coverage")
    return None


class Coverage:
    """The edges that instrumented modules took since the last look; `is_there` when they were built so."""

    def __init__(self) -> None:
        self._edges = find_edges()
        self._seen = 0

    @property
    def edges(self) -> int:
        """How many were ever taken."""
        return EDGES - self._seen.to_bytes(EDGES, "little").count(0)

    @property
    def is_there(self) -> bool:
        return self._edges is not None

    def clear(self) -> None:
        if self._edges is not None:
            ctypes.memset(self._edges, 0, EDGES)

    def new(self) -> bool:
        """Whether an edge was taken for the first time, or clearly more often than ever."""
        if self._edges is None:
            return False
        taken = int.from_bytes(bytes(self._edges).translate(_BUCKETS), "little")
        found = taken & ~self._seen
        self._seen |= taken
        return found != 0


def mutate(random: Random, data: bytes, pool: list[bytes]) -> bytes:
    """One to eight small changes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        random.choice(_MUTATIONS)(random, changed, pool)
    return bytes(changed[:INPUT_LENGTH_MAX])


def _flip(random: Random, data: bytearray, pool: list[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _byte(random: Random, data: bytearray, pool: list[bytes]) -> None:
    if data:
        data[random.randrange(len(data))] = random.randrange(256)


def _integer(random: Random, data: bytearray, pool: list[bytes]) -> None:
    width = random.choice((1, 2, 4, 4, 8))
    if len(data) >= width:
        at = random.randrange(len(data) - width + 1)
        value = random.choice(_EDGE_INTEGERS) & ((1 << 8 * width) - 1)
        data[at : at + width] = value.to_bytes(width, "little")


def _add(random: Random, data: bytearray, pool: list[bytes]) -> None:
    width = random.choice((1, 2, 4, 8))
    if len(data) >= width:
        at = random.randrange(len(data) - width + 1)
        value = int.from_bytes(data[at : at + width], "little") + random.choice((-64, -32, -1, 1, 32, 64))
        data[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _cut(random: Random, data: bytearray, pool: list[bytes]) -> None:
    if data:
        at = random.randrange(len(data))
        del data[at : at + random.choice((1, 4, 8, 32, len(data)))]


def _repeat(random: Random, data: bytearray, pool: list[bytes]) -> None:
    if data:
        at = random.randrange(len(data))
        part = data[at : at + random.randrange(1, 200)]
        to = random.randrange(len(data) + 1)
        data[to:to] = part


def _splice(random: Random, data: bytearray, pool: list[bytes]) -> None:
    other = random.choice(pool)
    if other:
        at = random.randrange(len(other))
        to = random.randrange(len(data) + 1)
        data[to : to + random.choice((0, 0, 32, 100))] = other[at : at + random.randrange(1, 400)]


def _noise(random: Random, data: bytearray, pool: list[bytes]) -> None:
    to = random.randrange(len(data) + 1)
    data[to:to] = random.randbytes(random.choice((1, 4, 32)))


_MUTATIONS = (_flip, _byte, _integer, _integer, _add, _cut, _repeat, _splice, _splice, _noise)


# --- programs: inputs of doors that take several things in turn -------------------------------------------------------

Step = tuple[int, bytes]
Draw = Callable[[Random], Step]
ChosenT = TypeVar("ChosenT")


def pack(steps: list[Step]) -> bytes:
    """A program of (kind below 256, bytes) steps."""
    return b"".join(bytes([kind]) + len(data).to_bytes(2, "little") + data for kind, data in steps)


def unpack(program: bytes, most: int = STEPS_MAX) -> list[Step]:
    """The steps of any bytes whatever; the last one may be shorter than it says."""
    steps: list[Step] = []
    at = 0
    while at + 3 <= len(program) and len(steps) < most:
        length = int.from_bytes(program[at + 1 : at + 3], "little")
        steps.append((program[at], program[at + 3 : at + 3 + length]))
        at += 3 + length
    return steps


class Fields:
    """What a step's bytes say, a byte or some at a time; where they end, zeros follow. So any bytes say something."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def choose(self, options: Sequence[ChosenT]) -> ChosenT:
        return options[self.byte() % len(options)]

    def near(self, value: int, unit: int = 1) -> int:
        """`value`, for most bytes; a few units from it, or a number at the edge of what there is."""
        chosen = self.byte()
        if chosen < 128:
            return value
        if chosen < 224:
            return value + unit * (chosen - 176)
        return (value & ~0xFFFF) + _EDGE_INTEGERS[chosen % len(_EDGE_INTEGERS)]

    def rest(self) -> bytes:
        return self._data[self._at :]


def draw_fields(random: Random, length: int) -> bytes:
    """Bytes for Fields, which often say the usual: the first of what is chosen from, and the value itself."""
    return bytes(random.choice((0, random.randrange(128), random.randrange(256))) for _ in range(length))


def mutate_steps(random: Random, program: bytes, pool: list[bytes], draw: Draw) -> bytes:
    """One to four changes of a program whose steps stay whole."""
    steps = unpack(program)
    for _ in range(random.choice((1, 1, 2, 4))):
        random.choice(_STEP_MUTATIONS)(random, steps, pool, draw)
    return pack(steps[:STEPS_MAX])


def _draw_some(random: Random, steps: list[Step], pool: list[bytes], draw: Draw) -> None:
    at = random.randrange(len(steps) + 1)
    steps[at:at] = [draw(random) for _ in range(random.choice((1, 1, 2, 4)))]


def _draw_at_end(random: Random, steps: list[Step], pool: list[bytes], draw: Draw) -> None:
    steps.extend(draw(random) for _ in range(random.choice((1, 2, 4, 8))))


def _leave_out(random: Random, steps: list[Step], pool: list[bytes], draw: Draw) -> None:
    if steps:
        at = random.randrange(len(steps))
        del steps[at : at + random.choice((1, 1, 2, 8))]


def _again(random: Random, steps: list[Step], pool: list[bytes], draw: Draw) -> None:
    if steps:
        at = random.randrange(len(steps))
        to = random.randrange(len(steps) + 1)
        steps[to:to] = steps[at : at + random.choice((1, 1, 2, 8))]


def _join(random: Random, steps: list[Step], pool: list[bytes], draw: Draw) -> None:
    other = unpack(random.choice(pool))
    at = random.randrange(len(other) + 1)
    to = random.randrange(len(steps) + 1)
    steps[to : to + random.choice((0, 0, 1, STEPS_MAX))] = other[at : at + random.choice((1, 4, STEPS_MAX))]


def _change_step(random: Random, steps: list[Step], pool: list[bytes], draw: Draw) -> None:
    if steps:
        at = random.randrange(len(steps))
        kind, data = steps[at]
        steps[at] = kind, mutate(random, data, [data])


_STEP_MUTATIONS = (_draw_some, _draw_at_end, _leave_out, _again, _join, _change_step, _change_step)


class Fuzzer:
    """Inputs of one door, one after the other. `before(data)` is called ahead of each run, to leave a trace of it."""

    def __init__(self, door: Door, seed: int, corpus: list[bytes], before: Callable[[bytes], object]) -> None:
        self.door = door
        self.random = Random(seed)
        self.coverage = Coverage()
        self.pool: list[bytes] = []
        self.found: list[bytes] = []
        self.runs = 0
        self._signatures: set[Hashable] = set()
        self._before = before
        for data in [*door.seeds(), *corpus]:
            self._try(data)
            self.pool.append(data)
        self.found.clear()

    def step(self) -> None:
        """Mutates one input and runs it; keeps it when it showed something new."""
        recent = self.random.random() < 0.5
        base = self.pool[-1 - self.random.randrange(min(50, len(self.pool)))] if recent else None
        data = self._mutate(base if base is not None else self.random.choice(self.pool))
        if self._try(data):
            self.found.append(data)
            if len(self.pool) < POOL_MAX:
                self.pool.append(data)
            else:
                self.pool[self.random.randrange(POOL_MAX)] = data

    def _mutate(self, base: bytes) -> bytes:
        if isinstance(self.door, StepDoor) and self.random.random() < STEP_CHANGES:
            return mutate_steps(self.random, base, self.pool, self.door.draw)
        return mutate(self.random, base, self.pool)

    def _try(self, data: bytes) -> bool:
        self._before(data)
        self.coverage.clear()
        signature = self.door.run(data)
        self.runs += 1
        if isinstance(signature, frozenset):
            parts = set(signature)
        else:
            parts = set(enumerate(signature)) if isinstance(signature, tuple) else {signature}
        is_new = not parts <= self._signatures  # decoders in Python take no edges
        self._signatures |= parts
        return self.coverage.new() or is_new


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def read_corpus(folder: Path) -> list[bytes]:
    """The kept inputs of a door, in the order of their names."""
    return [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []
