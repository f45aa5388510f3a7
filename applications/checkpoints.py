"""Where an instance of an application keeps its state between two lives: one checkpoint, replaced as a whole.

With it stands which cluster's log it is of. Checkpoints of earlier releases are without.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from zlib import crc32

from ordo.cluster.wire.log_identity import Origin, identity_text, parse_identity
from ordo.runtime.errors import StorageDamagedError
from ordo.runtime.io.storage import Storage

STORE_NAME = "checkpoint.mdb"
COUNT_KEY = b"count"
DIGEST_KEY = b"crc32"
CLUSTER_KEY = b"cluster"


def _key(index: int) -> bytes:
    return b"message %08d" % index


class Checkpoints:
    """The newest checkpoint of one folder, which belongs to this object until `close`."""

    def __init__(self, storage: Storage, folder: str) -> None:
        """Raise StorageInUseError when another instance has the folder, StorageError."""
        storage.make_directory(folder)
        self.folder = folder
        self._lock = storage.lock_directory(folder)
        try:
            self._store = storage.open_metadata(os.path.join(folder, STORE_NAME))
        except BaseException:
            self._lock.close()
            raise

    def load(self) -> list[bytes] | None:
        """Return the messages of the last `save`, None when there was none. Raises StorageDamagedError."""
        count = self._store.get(COUNT_KEY)
        if count is None:
            return None
        messages = [self._store.get(_key(index)) for index in range(int(count))]
        found = [message for message in messages if message is not None]
        if len(found) != len(messages) or self._store.get(DIGEST_KEY) != _digest(found):
            raise self._damage()
        return found

    @property
    def origin(self) -> Origin | None:
        """The identity of the cluster that the checkpoint belongs to, or None. Raises StorageDamagedError."""
        row = self._store.get(CLUSTER_KEY)
        if row is None:
            return None
        digest, _, text = row.partition(b" ")
        if digest != _digest([text]):
            raise self._damage()
        return parse_identity(text.decode())

    def _damage(self) -> StorageDamagedError:
        return StorageDamagedError(
            f"the checkpoint in {self.folder} is damaged: with an empty folder the instance begins anew"
        )

    def save(self, messages: Iterable[bytes], origin: Origin | None = None) -> None:
        """Replace the checkpoint in one durable transaction. Raises StorageError."""
        found = list(messages)
        before = int(self._store.get(COUNT_KEY) or 0)
        with self._store.transaction() as transaction:
            for index, message in enumerate(found):
                transaction.put(_key(index), message)
            for index in range(len(found), before):
                transaction.delete(_key(index))
            transaction.put(COUNT_KEY, b"%d" % len(found))
            transaction.put(DIGEST_KEY, _digest(found))
            if origin is None:
                transaction.delete(CLUSTER_KEY)
            else:
                text = identity_text(origin).encode()
                transaction.put(CLUSTER_KEY, b"%s %s" % (_digest([text]), text))

    def close(self) -> None:
        self._store.close()
        self._lock.close()


def _digest(messages: Iterable[bytes]) -> bytes:
    digest = 0
    for message in messages:
        digest = crc32(message, crc32(b"%d" % len(message), digest))
    return b"%08x" % digest
