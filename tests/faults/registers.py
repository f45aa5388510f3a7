"""The service of the fault tests: the ledger, and registers beside it that are read, written, swapped and appended to.

request  u8 kind, u32 client, u64 number, u32 key, u64 value, u64 expected
answer   u8 kind, u32 client, u64 number, u8 took effect, u64 value read (0: never written) or appended to
"""

from __future__ import annotations

import pickle
from enum import IntEnum
from struct import Struct
from typing import Any

from ordo.service_api.native import Header
from ordo.service_api.service import ClientSession
from ordo.service_api.snapshot import SnapshotWriter
from tests.cluster.integration.protocol import chain
from tests.cluster.integration.services import Ledger
from tests.linearizability.models import append

OPERATION = Struct("<BIQIQQ")
OUTCOME = Struct("<BIQBQ")
VISIT = 21
"""First byte of a request that changes nothing: its answer is the same bytes."""


class Operation(IntEnum):
    """Apart from the ledger's kinds."""

    READ = 11
    WRITE = 12
    CAS = 13
    APPEND = 14


class Registers(Ledger):
    """What is done to the registers is part of the ledger's hash, so that members that differ are found."""

    def __init__(self) -> None:
        super().__init__()
        self.registers: dict[int, int] = {}

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: bytes, header: Header
    ) -> bytes | None:
        if payload[0] == VISIT:
            return payload
        if payload[0] not in Operation.__members__.values():
            return super().on_session_message(session, timestamp, payload, header)
        answer = self.operate(payload)
        if session is not None:
            session.offer(answer)
        return None

    def operate(self, payload: bytes) -> bytes:
        """Executes an operation; its answer."""
        kind, client, number, key, value, expected = OPERATION.unpack(payload)
        took_effect = kind != Operation.CAS or self.registers.get(key, 0) == expected
        if kind == Operation.READ:
            value = self.registers.get(key, 0)
        elif took_effect:
            if kind == Operation.APPEND:
                value = append(self.registers.get(key, 0), value)
            self.registers[key] = value
        answer = OUTCOME.pack(kind, client, number, took_effect, value)
        self.total_hash = chain(self.total_hash, answer)
        return answer

    def on_take_snapshot(self, writer: SnapshotWriter) -> None:
        ledger = (self.count, self.total_hash, self.writer_hashes, self.sequences, self.counts)
        writer.write(pickle.dumps((ledger, self.registers)))

    def _load(self, state: Any) -> None:
        ledger, self.registers = state
        super()._load(ledger)
