"""A read-only view of a metadata store: no lock file, no write right, no trace beside it.

LMDB's own read-only mode writes into the lock file, so it needs the right to write the folder, and changes it. So a
reader takes the file's bytes and reads its pages itself (lmdb_pages.py). They are one committed state when two reads
one after the other give the same bytes: every commit changes the meta page at the head of the file, and a page that the
state shown there can reach is not written before two further commits.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from ordo.archive.store.lmdb_pages import read_pages
from ordo.archive.store.lmdb_seal import unsealed
from ordo.runtime.errors import StorageDamagedError, StorageError, StorageMissingError
from ordo.runtime.io.storage import MetadataStore, Transaction

READS_MAX = 1000


def read_stable(path: str) -> bytes:
    """Return the bytes of one committed state. Raises StorageError."""
    try:
        before = b""
        for _ in range(READS_MAX):
            with open(path, "rb") as file:
                content = file.read()
            if content == before and content:
                return content
            before = content
    except FileNotFoundError:
        raise StorageMissingError(f"metadata store is not there: path={path}") from None
    except OSError as error:
        raise StorageError(f"cannot read metadata store: path={path}: {error.strerror}") from error
    if not before:
        raise StorageDamagedError(f"metadata store is empty: path={path}; restore it from a copy")
    raise StorageError(f"metadata store changed during {READS_MAX} reads: path={path}; try again")


def checked_items(path: str) -> tuple[dict[bytes, bytes], bool]:
    """Return everything in the store at `path`, in key order and without its seals, and whether it is sealed.

    A file that is missing or empty holds nothing. Raises StorageDamagedError, StorageError.
    """
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return {}, False
    return unsealed(path, read_pages(path, read_stable(path)))


class LmdbCopy(MetadataStore):
    """The state of a store when it was opened, without what is committed later."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._items: dict[bytes, bytes] | None = unsealed(path, read_pages(path, read_stable(path)))[0]

    def _opened(self) -> dict[bytes, bytes]:
        if self._items is None:
            raise StorageError(f"metadata store is closed: path={self.path}")
        return self._items

    def get(self, key: bytes) -> bytes | None:
        return self._opened().get(key)

    def items(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        return [(key, value) for key, value in self._opened().items() if key.startswith(prefix)]

    def transaction(self) -> AbstractContextManager[Transaction]:
        raise StorageError(f"metadata store is open read-only: path={self.path}")

    def close(self) -> None:
        self._items = None
