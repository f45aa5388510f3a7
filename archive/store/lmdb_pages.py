"""A reader of the pages of an LMDB file without LMDB, which believes none of them.

LMDB follows page numbers, offsets and lengths as they stand in the file. One flipped bit there ends the process, or
shows an older state, for which no checksum of a value helps. So a file is read here before LMDB gets to see it.

    page: u64 number | u16 - | u16 flags | u16 end of the offsets (overflow: u32 page count with the next) | u16 -
          branch and leaf pages go on with u16 offsets of their nodes
    node: u16 low, u16 high, u16 flags, u16 key length, key, data or u64 number of the first overflow page
          leaf: length of the data = high << 16 | low; branch: page below = flags << 32 | high << 16 | low
    meta, pages 0 and 1 after their header: u32 magic | u32 version | u64 address | u64 map size | two databases (free
          pages, content): u32 page size of the first | u16 flags | u16 depth | u64 branch, leaf, overflow pages |
          u64 entries | u64 root || u64 last page | u64 transaction

That is format 1, of LMDB 0.9, which this project writes. Format 3, of LMDB 1.0, differs in this: the header has a u64
transaction after the number; offsets count from the header's end; a key has an even number of bytes in its node; and
after the number of the first overflow page come u64 transaction and u64 page count.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import NamedTuple

from ordo.runtime.errors import StorageDamagedError

MAGIC = 0xBEEFC0DE
NO_PAGE = (1 << 64) - 1
DEPTH_MAX = 32
MAP_BYTES_MAX = 1 << 33
INTEGER_KEY, NO_SUBFOLDER = 0x08, 0x4000
BRANCH, LEAF, OVERFLOW, META = 1, 2, 4, 8
BIG_DATA = 1

FORMAT_09, FORMAT_10 = 1, 3
_MAGIC_AT = {16: FORMAT_09, 24: FORMAT_10}

_PAGE = {FORMAT_09: struct.Struct("<QHHHH"), FORMAT_10: struct.Struct("<Q8xHHHH")}
_META = struct.Struct("<IIQQ")
_DATABASE = struct.Struct("<IHHQQQQQ")
_META_END = struct.Struct("<QQ")
_NODE = struct.Struct("<HHHH")
_U64 = struct.Struct("<Q")
_BIG = struct.Struct("<QQQ")


def format_of(content: bytes) -> int:
    """Return the format of a file's first page: FORMAT_09, FORMAT_10, or 0 if it is neither."""
    for offset, version in _MAGIC_AT.items():
        if content[offset : offset + 8] == struct.pack("<II", MAGIC, version):
            return version
    return 0


class PagesError(ValueError):
    """The error of a damaged page, for StorageDamagedError."""


class _Database(NamedTuple):
    page_length: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int


class _Meta(NamedTuple):
    free: _Database
    content: _Database
    last_page: int
    transaction_id: int


class StoredItems(NamedTuple):
    """The content of a file, and the id of the transaction that it shows."""

    items: dict[bytes, bytes]
    transaction_id: int
    previous: dict[bytes, bytes]
    """The content under the other meta page, which no crash has touched; empty if it cannot be read."""


def read_pages(path: str, content: bytes) -> StoredItems:
    """Return the state that a file of these bytes shows. Raises StorageDamagedError if LMDB must not open it."""
    try:
        return _Pages(content).read()
    except (PagesError, struct.error) as error:
        raise StorageDamagedError(f"metadata store is damaged: path={path}: {error}; restore it from a copy") from error


class _Pages:
    """One pass over a file: which pages are used, by which parent, and what they contain."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._page_length = 4096
        self._format = format_of(content) or FORMAT_09
        self._page = _PAGE[self._format]
        self._base = self._page.size if self._format == FORMAT_10 else 0
        """The offset that offsets in a page count from."""
        self._used: set[int] = set()
        self._previous, self._meta = self._read_metas()

    def read(self) -> StoredItems:
        items = dict(self._items(self._meta.content, "content"))
        freed: set[int] = set()
        for _, value in self._items(self._meta.free, "free"):
            (count,) = _U64.unpack_from(value)
            numbers = set(struct.unpack_from(f"<{self._bounded(count, len(value) // 8)}Q", value, 8))
            if (
                len(numbers) != count
                or numbers & freed
                or not all(1 < each <= self._meta.last_page for each in numbers)
            ):
                raise PagesError("a page is free twice, or is none of the file's")
            freed |= numbers
        if freed & self._used:
            raise PagesError(f"page {min(freed & self._used)} is in use and free")
        return StoredItems(items, self._meta.transaction_id, self._previous_items())

    def _previous_items(self) -> dict[bytes, bytes]:
        """Return the items of the last but one transaction.

        LMDB writes none of its pages, so that one can go back from a torn meta page.
        """
        self._meta, self._used = self._previous, set()
        try:
            return dict(self._items(self._meta.content, "previous content"))
        except (PagesError, struct.error):
            return {}

    @staticmethod
    def _bounded(number: int, most: int) -> int:
        if number > most:
            raise PagesError(f"count={number} allowed=0..{most}")
        return number

    def _read_metas(self) -> tuple[_Meta, _Meta]:
        """Return the meta pages of the last but one and of the last transaction.

        The one of transaction n is page n modulo 2, the other that of n - 1. One flipped bit may still make n -
        2 of n, or n + 1 of n - 1: seals tell that.
        """
        first, second = self._read_meta(0), self._read_meta(1)
        ids = (first.transaction_id, second.transaction_id)
        if ids != (0, 0) and (abs(ids[0] - ids[1]) != 1 or ids[0] % 2 != 0):
            raise PagesError(f"transactions of the meta pages are {ids[0]} and {ids[1]}")
        previous, newest = (second, first) if ids[0] > ids[1] else (first, second)
        if (newest.last_page + 1) * self._page_length > len(self._content):
            raise PagesError(f"last page={newest.last_page}, the file has {len(self._content) // self._page_length}")
        return previous, newest

    def _read_meta(self, number: int) -> _Meta:
        start = number * self._page_length + self._page.size
        flags = self._header(number)[2]
        magic, version, _, map_length = _META.unpack_from(self._content, start)
        free, content = (
            _Database(*_DATABASE.unpack_from(self._content, start + _META.size + index * _DATABASE.size))
            for index in range(2)
        )
        meta = _Meta(free, content, *_META_END.unpack_from(self._content, start + _META.size + 2 * _DATABASE.size))
        if not flags & META or (magic, version) != (MAGIC, self._format) or map_length > MAP_BYTES_MAX:
            raise PagesError(f"meta page {number} is none")
        if free.flags & ~NO_SUBFOLDER != INTEGER_KEY or content.flags:
            raise PagesError(f"meta page {number} has flags {free.flags:#x} and {content.flags:#x}")
        self._page_length = free.page_length
        if not 4096 <= self._page_length <= 65536 or self._page_length & (self._page_length - 1):
            raise PagesError(f"page length={self._page_length}")
        if map_length < (meta.last_page + 1) * self._page_length:
            raise PagesError(f"map length={map_length} last page={meta.last_page}")
        return meta

    def _header(self, number: int) -> tuple[int, ...]:
        if (number + 1) * self._page_length > len(self._content):
            raise PagesError(f"page {number} is beyond the file")
        header = self._page.unpack_from(self._content, number * self._page_length)
        if header[0] != number:
            raise PagesError(f"page {number} says that it is page {header[0]}")
        return header

    def _take(self, number: int) -> None:
        if number in self._used or not 1 < number <= self._meta.last_page:
            raise PagesError(f"page {number} is used twice, or is none of the file's")
        self._used.add(number)

    def _items(self, database: _Database, name: str) -> list[tuple[bytes, bytes]]:
        found: list[tuple[bytes, bytes]] = []
        if database.root != NO_PAGE:
            if database.depth > DEPTH_MAX:
                raise PagesError(f"depth={database.depth} of {name}")
            self._walk(database.root, database.depth, found)
        order = [key[::-1] if name == "free" else key for key, _ in found]
        if len(found) != database.entries or any(a >= b for a, b in pairwise(order)):
            raise PagesError(f"{name} has {len(found)} entries, expected {database.entries} in order")
        return found

    def _walk(self, number: int, depth: int, found: list[tuple[bytes, bytes]]) -> None:
        """Add what a page and those below it hold; `depth` levels are left down to a leaf, this one included."""
        self._take(number)
        _, _, flags, lower, upper = self._header(number)
        lower, upper = lower + self._base, upper + self._base
        kind, header = LEAF if depth == 1 else BRANCH, self._page.size
        if flags != kind or lower % 2 or not header <= lower <= upper <= self._page_length:
            raise PagesError(f"page {number} has flags={flags:#x} bounds={lower},{upper}")
        start = number * self._page_length
        for each in struct.unpack_from(f"<{(lower - header) // 2}H", self._content, start + header):
            offset = each + self._base
            if not upper <= offset <= self._page_length - _NODE.size:
                raise PagesError(f"page {number} has a node at {offset}")
            low, high, node_flags, key_length = _NODE.unpack_from(self._content, start + offset)
            key_end = offset + _NODE.size + key_length
            data = key_end + (key_length % 2 if self._format == FORMAT_10 and kind == LEAF else 0)
            if data > self._page_length:
                raise PagesError(f"page {number} has a key of {key_length} bytes at {offset}")
            key = self._content[start + offset + _NODE.size : start + key_end]
            if kind == BRANCH:
                self._walk(node_flags << 32 | high << 16 | low, depth - 1, found)
            else:
                found.append((key, self._value(start + data, start + self._page_length, high << 16 | low, node_flags)))

    def _value(self, offset: int, end: int, length: int, flags: int) -> bytes:
        if flags == BIG_DATA:
            (number,) = _U64.unpack_from(self._content, offset)
            found = self._overflow(number, length)
            if self._format == FORMAT_10 and _BIG.unpack_from(self._content, offset)[2] != self._pages_of(number):
                raise PagesError(f"the pages from {number} on are counted twice, and not alike")
            return found
        if flags or offset + length > end:
            raise PagesError(f"a value of {length} bytes with flags={flags:#x} at {offset}")
        return self._content[offset : offset + length]

    def _pages_of(self, number: int) -> int:
        _, _, _, low, high = self._header(number)
        return high << 16 | low

    def _overflow(self, number: int, length: int) -> bytes:
        flags, count = self._header(number)[2], self._pages_of(number)
        if flags != OVERFLOW or count * self._page_length < self._page.size + length:
            raise PagesError(f"page {number} has flags={flags:#x} and {count} pages for {length} bytes")
        for each in range(number, number + self._bounded(count, len(self._content) // self._page_length)):
            self._take(each)
        start = number * self._page_length + self._page.size
        return self._content[start : start + length]
