"""Schemas of the simulated service's messages: each version of its code has one, which extends the one before."""

from __future__ import annotations

from ordo.messages import Schema, UInt16, UInt64, field, message
from ordo.service_api.messages.logged import pack_schema
from tests.simulation.own_code import VERSIONS


def _of_first() -> Schema:
    @message(id=1)
    class Order:
        register: UInt16
        value: UInt64

    return Schema("registers", Order)


def _of_second() -> Schema:
    @message(id=1, version=1)
    class Order:
        register: UInt16
        value: UInt64
        expected: UInt64 | None = field(since=1, default=None)

    return Schema("registers", Order)


def _of_third() -> Schema:
    @message(id=1, version=1)
    class Order:
        register: UInt16
        value: UInt64
        expected: UInt64 | None = field(since=1, default=None)

    @message(id=2, version=2)
    class Query:
        register: UInt16

    return Schema("registers", Order, Query)


def _of_others(with_query: bool) -> Schema:
    @message(id=1, version=1)
    class Order:
        register: UInt16
        value: UInt64
        limit: UInt64 | None = field(since=1, default=None)

    @message(id=2, version=2)
    class Query:
        register: UInt16

    return Schema("registers", Order, Query) if with_query else Schema("registers", Order)


SCHEMAS = dict(zip(VERSIONS, (_of_first(), _of_second(), _of_third()), strict=True))
"""By version of the code."""
OTHERS = dict(zip(VERSIONS, (_of_first(), _of_others(False), _of_others(True)), strict=True))
"""Those of the one member whose code is other code: from the second version on they contradict the others'."""
DIGESTS = {pack_schema(schema).digest: version for version, schema in SCHEMAS.items()}
