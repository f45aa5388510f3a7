"""Messages with types: what `@ordo.message` classes are made of, and the schemas that they form.

    @ordo.message(id=1)
    class NewOrder:
        account: UInt32
        side: Side
        price: Annotated[Decimal, Fixed(2)]
        quantity: UInt32 | None = None

docs/MESSAGES.md has all types.
"""

from ordo.service_api.messages.codec import MessageView, decode, encode
from ordo.service_api.messages.fields import (
    Array,
    At,
    Bytes,
    Chars,
    Fixed,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Rows,
    Sized,
    TimestampMs,
    TimestampNs,
    TimestampUs,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    field,
    number,
)
from ordo.service_api.messages.message import Schema, composite, group, message, view
from ordo.service_api.messages.request import Request
from ordo.service_api.messages.typed_service import TypedService, handles

__all__ = [
    "Array",
    "At",
    "Bytes",
    "Chars",
    "Fixed",
    "Float32",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "MessageView",
    "Request",
    "Rows",
    "Schema",
    "Sized",
    "TimestampMs",
    "TimestampNs",
    "TimestampUs",
    "TypedService",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "composite",
    "decode",
    "encode",
    "field",
    "group",
    "handles",
    "message",
    "number",
    "view",
]
