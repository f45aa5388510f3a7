"""The seal of a metadata store: a checksum of its content, kept inside it.

Each transaction writes its own id, the number of items, and a sum of a hash of each. A store whose content is not that
of its seal was damaged; one whose seal is of another transaction shows an older state. The seal is there twice: so one
damaged key does not make the store look like one of an earlier version, which has none.

    value: u64 transaction id | u64 item count | 16 bytes sum of the items' hashes, modulo 2^128
"""

from __future__ import annotations

import hashlib
import struct

from ordo.archive.store.lmdb_pages import StoredItems
from ordo.runtime.errors import StorageDamagedError

SEALS = (b"\0seal-1", b"\0seal-2")

_SEAL = struct.Struct("<QQ16s")
_MODULUS = 1 << 128


def item_sum(key: bytes, value: bytes) -> int:
    """Return the contribution of one item to the sum."""
    hashed = hashlib.blake2b(len(key).to_bytes(4, "little") + key + value, digest_size=16, person=b"ordo metadata")
    return int.from_bytes(hashed.digest(), "little")


def content_sum(items: dict[bytes, bytes]) -> int:
    """Return the sum of all items; differences can be added to it."""
    return sum(item_sum(key, value) for key, value in items.items())


def seal_of(transaction_id: int, count: int, total: int) -> bytes:
    """Return the value of both seals after a transaction."""
    return _SEAL.pack(transaction_id, count, (total % _MODULUS).to_bytes(16, "little"))


def unsealed(path: str, stored: StoredItems) -> tuple[dict[bytes, bytes], bool]:
    """Return the items without the seals, and whether there were any.

    Raises StorageDamagedError where they do not agree, or where the state taken for the previous one was sealed
    later: then what is shown is not the present.
    """
    seals = [stored.items[key] for key in SEALS if key in stored.items]
    content = {key: value for key, value in stored.items.items() if key not in SEALS}
    if not seals:
        return content, False
    expected = seal_of(stored.transaction_id, len(content), content_sum(content))
    if seals != [expected, expected] or _latest_seal(stored.previous) > stored.transaction_id:
        raise StorageDamagedError(
            f"metadata store is damaged: path={path}: its content is not what its seal says; restore it from a copy"
        )
    return content, True


def _latest_seal(items: dict[bytes, bytes]) -> int:
    """Return the transaction that both seals name, or -1.

    One flipped bit in a state that nobody reads shall not count.
    """
    first, second = (items.get(key, b"") for key in SEALS)
    return int(_SEAL.unpack(first)[0]) if first == second and len(first) == _SEAL.size else -1
