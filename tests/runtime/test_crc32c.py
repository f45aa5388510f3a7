"""CRC32C by the processor's instruction, by tables, and as chosen at run time: one value."""

import platform
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.archive import model
from tests.runtime import atomics_probe as probe

KIND, HAS_INSTRUCTION = probe.crc32c_hardware()
PATHS = [
    pytest.param(probe.crc32c, id="chosen"),
    pytest.param(probe.crc32c_plain, id="plain"),
    pytest.param(
        probe.crc32c_instruction,
        id="instruction",
        marks=pytest.mark.skipif(not HAS_INSTRUCTION, reason="this processor has no instruction for CRC32C"),
    ),
]
Crc = Callable[..., int]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"a", 0xC1D04330),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
@pytest.mark.parametrize("crc32c", PATHS)
def test_vectors_of_rfc_3720(crc32c: Crc, data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@pytest.mark.parametrize("crc32c", PATHS)
def test_goes_on_where_it_stopped(crc32c: Crc) -> None:
    data = bytes(range(100))
    for cut in range(101):
        assert crc32c(data[cut:], crc32c(data[:cut])) == crc32c(data)


@pytest.mark.parametrize("crc32c", PATHS)
def test_every_length_at_every_alignment_is_what_the_polynomial_says(crc32c: Crc) -> None:
    data = memoryview(random.Random(7).randbytes(300))
    for start in range(8):
        for length in (*range(40), 255, 288):
            piece = data[start : start + length]
            assert crc32c(piece) == model.crc32c(bytes(piece)) & 0xFFFFFFFF, (start, length)


def test_the_build_knows_the_instruction_of_its_processor() -> None:
    """Where the processor says that it has one, the slow path must not be what runs."""
    machine = platform.machine()
    flags = Path("/proc/cpuinfo").read_text().split()
    assert probe.crc32c_hardware()[0] == {"x86_64": "sse4.2", "aarch64": "armv8-crc"}.get(machine, "none")
    if machine == "x86_64":
        assert ("sse4_2" in flags) == HAS_INSTRUCTION
