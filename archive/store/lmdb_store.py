"""The metadata store on LMDB: one file, one process that writes; others read a copy (archive/store/lmdb_copy.py).

A transaction is durable (fdatasync of the file) when its block ends. Changes are gathered first and written at the end
of the block, so that a full map can be grown and the write repeated.

The file is read and checked when it is opened (lmdb_pages.py), and its content must be what its seal says
(lmdb_seal.py). From then on the store answers from memory, so that bits that rot later are not served.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lmdb

from ordo.archive.store.lmdb_copy import LmdbCopy, checked_items
from ordo.archive.store.lmdb_pages import FORMAT_10, format_of
from ordo.archive.store.lmdb_seal import SEALS, content_sum, item_sum, seal_of
from ordo.runtime.closing import Closing
from ordo.runtime.errors import StorageDamagedError, StorageError, StorageFullError
from ordo.runtime.io.durable_files import sync_folder
from ordo.runtime.io.storage import MetadataStore, Transaction
from ordo.runtime.native.file_access import file_mode

MAP_BYTES_DEFAULT = 16 * 1024 * 1024
MAP_BYTES_MAX = 4 * 1024 * 1024 * 1024
KEY_BYTES_MAX = 511
HEAD_BYTES = 64
LIB_09, LIB_10 = 0, 1
_HAS_ENGINES = hasattr(lmdb.Environment, "lib_version")


_DAMAGE = (lmdb.InvalidError, lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError, lmdb.IncompatibleError)


def _failure(action: str, path: str, error: Exception) -> StorageError:
    kind = StorageError
    if isinstance(error, (lmdb.DiskError, lmdb.MapFullError)):
        kind = StorageFullError
    elif isinstance(error, _DAMAGE):
        kind = StorageDamagedError
    return kind(f"cannot {action} metadata store: path={path}: {error}")


def _engine_for(path: str, *, is_copy: bool = False) -> dict[str, Any]:
    """Return the argument of `lmdb.open` that says which engine to use for a file.

    The engine follows the file's own format, or that of the file that it is a copy of; a new one gets LMDB 0.9,
    whatever the environment asks for.

    Releases of lmdb from 2.0 on may have two engines, earlier ones take no such argument. Raises StorageError where the
    engine of a file is missing.
    """
    try:
        with open(path, "rb") as file:
            found = format_of(file.read(HEAD_BYTES))
    except OSError:
        found = 0  # it is missing, or opening it will say what is wrong
    if found == FORMAT_10 and not _has_engine(LIB_10):
        raise StorageError(
            f"cannot open metadata store: path={path}: it was written by LMDB 1.0, which lmdb {lmdb.__version__} has "
            "not: install lmdb 3.0 or later"
        )
    if not _HAS_ENGINES or (found and not is_copy):
        return {}
    wanted = LIB_10 if found == FORMAT_10 else LIB_09
    return {"lib_version": wanted} if _has_engine(wanted) else {}


def _has_engine(lib_version: int) -> bool:
    if not _HAS_ENGINES:
        return lib_version == LIB_09
    try:
        lmdb.version(lib_version=lib_version)
    except lmdb.Error:
        return False
    return True


class LmdbTransaction(Transaction):
    """A transaction that shows its own changes over the committed state, and commits them all at once."""

    def __init__(self, store: LmdbStore) -> None:
        self._store = store
        self.changes: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.changes[key] if key in self.changes else self._store.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        if not 0 < len(key) <= KEY_BYTES_MAX or bytes(key) in SEALS:
            raise ValueError(f"key_length_bytes={len(key)}, allowed 1..{KEY_BYTES_MAX}")
        self.changes[bytes(key)] = bytes(value)

    def delete(self, key: bytes) -> None:
        self.changes[bytes(key)] = None


class LmdbStore(MetadataStore, Closing):
    """One environment in one file, with its lock file `<path>-lock` beside it."""

    def __init__(self, path: str, *, map_bytes: int = MAP_BYTES_DEFAULT) -> None:
        self.path = path
        is_new = not os.path.exists(path)
        map_bytes = max(map_bytes, 0 if is_new else os.path.getsize(path))
        engine = _engine_for(path)
        self._items, is_sealed = checked_items(path)
        self._sum = content_sum(self._items)
        try:
            self._env: Any = lmdb.open(
                path, map_size=map_bytes, subdir=False, max_readers=126, mode=file_mode(), **engine
            )
        except (lmdb.Error, OSError) as error:
            raise _failure("open", path, error) from error
        if not is_sealed:
            self._apply({})
        if is_new:
            try:
                sync_folder(os.path.dirname(os.path.abspath(path)))  # what is committed has a name to be found by
            except OSError as error:
                self.close()
                raise _failure("open", path, error) from error

    def get(self, key: bytes) -> bytes | None:
        self._opened()
        return self._items.get(key)

    def items(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        self._opened()
        return sorted((key, value) for key, value in self._items.items() if key.startswith(prefix))

    @contextmanager
    def transaction(self) -> Iterator[LmdbTransaction]:
        txn = LmdbTransaction(self)
        yield txn
        if txn.changes:
            self._apply(txn.changes)

    def copy_to(self, path: str) -> None:
        """Copy what is committed, durably and in as few pages as it needs. Raises StorageError."""
        if os.path.exists(path):
            os.unlink(path)
        try:
            with lmdb.open(
                path,
                map_size=self._opened().info()["map_size"],
                subdir=False,
                lock=False,
                mode=file_mode(),
                **_engine_for(self.path, is_copy=True),
            ) as env:
                self._commit(env, dict(self._items), len(self._items), self._sum)
        except (lmdb.Error, OSError) as error:
            raise _failure("copy", self.path, error) from error

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None

    def _opened(self) -> Any:
        if self._env is None:
            raise StorageError(f"metadata store is closed: path={self.path}")
        return self._env

    def _apply(self, changes: dict[bytes, bytes | None]) -> None:
        count, total = len(self._items), self._sum
        for key, value in changes.items():
            if (before := self._items.get(key)) is not None:
                count, total = count - 1, total - item_sum(key, before)
            if value is not None:
                count, total = count + 1, total + item_sum(key, value)
        while True:
            env = self._opened()
            try:
                self._commit(env, changes, count, total)
                break
            except lmdb.MapFullError as error:
                map_bytes = env.info()["map_size"] * 2
                if map_bytes > MAP_BYTES_MAX:
                    raise _failure("grow", self.path, error) from error
                env.set_mapsize(map_bytes)
            except lmdb.Error as error:
                raise _failure("write", self.path, error) from error
        self._sum = total
        for key, value in changes.items():
            if value is None:
                self._items.pop(key, None)
            else:
                self._items[key] = value

    @staticmethod
    def _commit(env: Any, changes: dict[bytes, bytes | None], count: int, total: int) -> None:
        with env.begin(write=True) as txn:
            for key, value in changes.items():
                if value is None:
                    txn.delete(key)
                else:
                    txn.put(key, value)
            for key in SEALS:
                txn.put(key, seal_of(txn.id(), count, total))


def open_lmdb(path: str, read_only: bool = False) -> MetadataStore:
    """Return the metadata factory of a FileStorage."""
    return LmdbCopy(path) if read_only else LmdbStore(path)


def compact_store(path: str) -> None:
    """Rewrite a store without the pages that it does not need. Nobody may have it open. Raises StorageError."""
    temporary = f"{path}.compact"
    store = LmdbStore(path)
    try:
        store.copy_to(temporary)
    finally:
        store.close()
    os.replace(temporary, path)
