"""A mutational fuzzer, guided by coverage where there is one, and by what a door says of each run.

Python's own coverage-guided fuzzers see Python only. What has to be seen here is native: modules built with
`ORDO_SANITIZE=1` count the edges they take (coverage.c), and an input that takes a new one is kept and mutated further.
Without such a build the door's own signature (counters, kinds of errors) takes its place. One seed, one build: one run.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
from collections.abc import Callable, Hashable
from pathlib import Path
from random import Random
from typing import Protocol

EDGES = 1 << 16
INPUT_LENGTH_MAX = 4096
POOL_MAX = 2000
_BUCKETS = bytes(min(n, 3) if n < 4 else n.bit_length() + 1 for n in range(256))
_INTEGERS = (0, 1, -1, 2, 7, 8, 31, 32, 33, 64, 127, 128, 255, 4096, 65535, 65536, 1 << 24, 0x7FFFFF00)
_EDGE_INTEGERS = (*_INTEGERS, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))


class Door(Protocol):
    """What takes bytes from outside. `run` raises for a finding; what it returns tells like runs from unlike ones."""

    name: str

    def seeds(self) -> list[bytes]:
        """Valid inputs to begin with."""
        ...

    def run(self, data: bytes) -> Hashable:
        """Takes one input; another run of the same input does the same."""
        ...


class Coverage:
    """The edges that instrumented modules took since the last look; `is_there` when they were built so."""

    def __init__(self) -> None:
        self._edges: ctypes.Array[ctypes.c_uint8] | None = None
        with contextlib.suppress(ValueError):  # the modules were built without it
            self._edges = (ctypes.c_uint8 * EDGES).in_dll(ctypes.CDLL(None), "ordo_coverage")
        self._seen = bytearray(EDGES)

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
        taken = bytes(self._edges).translate(_BUCKETS)
        if not any(taken):
            return False
        found = False
        for index, bucket in enumerate(taken):
            if bucket > self._seen[index]:
                self._seen[index] = bucket
                found = True
        return found


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
        data = mutate(self.random, base if base is not None else self.random.choice(self.pool), self.pool)
        if self._try(data):
            self.found.append(data)
            if len(self.pool) < POOL_MAX:
                self.pool.append(data)
            else:
                self.pool[self.random.randrange(POOL_MAX)] = data

    def _try(self, data: bytes) -> bool:
        self._before(data)
        self.coverage.clear()
        signature = self.door.run(data)
        self.runs += 1
        is_new = self.coverage.new() or signature not in self._signatures  # decoders in Python take no edges
        self._signatures.add(signature)
        return is_new


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def read_corpus(folder: Path) -> list[bytes]:
    """The kept inputs of a door, in the order of their names."""
    return [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []


# --- programs: inputs of doors that take several things in turn -------------------------------------------------------


def pack(steps: list[tuple[int, bytes]]) -> bytes:
    """A program of (kind below 256, bytes) steps."""
    return b"".join(bytes([kind]) + len(data).to_bytes(2, "little") + data for kind, data in steps)


def unpack(program: bytes, most: int = 64) -> list[tuple[int, bytes]]:
    """The steps of any bytes whatever; the last one may be shorter than it says."""
    steps: list[tuple[int, bytes]] = []
    at = 0
    while at + 3 <= len(program) and len(steps) < most:
        length = int.from_bytes(program[at + 1 : at + 3], "little")
        steps.append((program[at], program[at + 3 : at + 3 + length]))
        at += 3 + length
    return steps
