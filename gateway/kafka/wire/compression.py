"""Compressed records of a batch, unpacked into no more than UNCOMPRESSED_BYTES_MAX, whatever they say of themselves.

gzip is Python's own; snappy, lz4 and zstd are the package cramjam's. All of them write into a buffer that does not
grow, so that a few kilobytes which would become gigabytes are refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from enum import IntEnum
from types import ModuleType

from ordo.runtime.errors import DecodeError

UNCOMPRESSED_BYTES_MAX = 4 << 20
"""So long the records of a compressed batch may be, which is far more than clients put into one by default."""
BLOCKS_MAX = 4_096
"""Clients write blocks of 32 KiB."""
_JAVA_SNAPPY = b"\x82SNAPPY\x00"
_JAVA_HEAD_BYTES = 16
"""The magic bytes, a version, and the lowest version that can read it."""
_FULL = "whole buffer"
"""What cramjam says of output that does not fit."""


class Codec(IntEnum):
    """How records are compressed, in the lowest bits of a batch's attributes."""

    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CompressionError(DecodeError):
    """A batch is compressed in a way that is not read here."""


class TooLongError(DecodeError):
    """A batch has more than UNCOMPRESSED_BYTES_MAX bytes."""


def unpack(kind: int, data: memoryview) -> bytes:
    """Return the records of a batch that is compressed. Raises DecodeError, CompressionError, TooLongError."""
    if kind not in _UNPACK:
        raise CompressionError(f"batches are compressed with {', '.join(one.name.lower() for one in Codec)}: {kind=}")
    return _UNPACK[Codec(kind)](data)


def find_lack() -> str:
    """Return what cannot be unpacked with the packages that are installed, and what would mend it, or ''."""
    try:
        _cramjam()
    except CompressionError as error:
        return error.message
    return ""


def _too_long() -> TooLongError:
    return TooLongError(f"a compressed batch has more than {UNCOMPRESSED_BYTES_MAX} bytes")


def _unpack_gzip(data: memoryview) -> bytes:
    inflate = zlib.decompressobj(31)
    try:
        body = inflate.decompress(data, UNCOMPRESSED_BYTES_MAX)
    except zlib.error as error:
        raise DecodeError(f"a batch is not compressed with gzip: {error}") from None
    if inflate.eof:
        return body
    if len(body) >= UNCOMPRESSED_BYTES_MAX:
        raise _too_long()
    raise DecodeError("a compressed batch is cut off")


def _unpack_snappy(data: memoryview) -> bytes:
    """Take one block, as librdkafka writes it, or Java's frame of blocks with their lengths."""
    if bytes(data[: len(_JAVA_SNAPPY)]) != _JAVA_SNAPPY:
        return _snappy_block(data, UNCOMPRESSED_BYTES_MAX)
    blocks: list[bytes] = []
    left, offset = UNCOMPRESSED_BYTES_MAX, _JAVA_HEAD_BYTES
    while offset < len(data):
        end = offset + 4 + int.from_bytes(data[offset : offset + 4], "big")
        if end > len(data) or end == offset + 4 or len(blocks) == BLOCKS_MAX:
            raise DecodeError("a batch's blocks of snappy do not add up to its length")
        blocks.append(_snappy_block(data[offset + 4 : end], left))
        left, offset = left - len(blocks[-1]), end
    return b"".join(blocks)


def _snappy_block(block: memoryview, bytes_max: int) -> bytes:
    cramjam = _cramjam()
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if length > bytes_max:
            raise _too_long()
        found = bytearray(length)
        cramjam.snappy.decompress_raw_into(block, found)
    except cramjam.DecompressionError as error:
        raise DecodeError(f"a batch is not compressed with snappy: {error}") from None
    return bytes(found)


def _unpack_lz4(data: memoryview) -> bytes:
    return _unpack_stream("lz4", data)


def _unpack_zstd(data: memoryview) -> bytes:
    return _unpack_stream("zstd", data)


def _unpack_stream(name: str, data: memoryview) -> bytes:
    cramjam = _cramjam()
    found = bytearray(UNCOMPRESSED_BYTES_MAX)
    try:
        length = getattr(cramjam, name).decompress_into(data, found)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            raise _too_long() from None
        raise DecodeError(f"a batch is not compressed with {name}: {error}") from None
    return bytes(memoryview(found)[:length])


def _cramjam() -> ModuleType:
    try:
        import cramjam
    except ModuleNotFoundError:
        raise CompressionError("snappy, lz4 and zstd need cramjam: pip install 'ordo-sequencer[kafka]'") from None
    return cramjam


_UNPACK: Mapping[Codec, Callable[[memoryview], bytes]] = {
    Codec.GZIP: _unpack_gzip,
    Codec.SNAPPY: _unpack_snappy,
    Codec.LZ4: _unpack_lz4,
    Codec.ZSTD: _unpack_zstd,
}
