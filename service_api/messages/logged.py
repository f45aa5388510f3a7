"""Schemas as the log keeps them: XML that was packed, named by its digest (docs/MESSAGES.md, The schema in the log).

A log or a snapshot may be damaged, so nothing that was packed is trusted: its length, its digest, and what XML can do
besides saying a schema are checked before it is read.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
import zlib
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ordo.runtime.errors import MessageError
from ordo.service_api.messages.evolution import breaks
from ordo.service_api.messages.layout import COMPOSITE
from ordo.service_api.messages.message import Schema, layout_of_message
from ordo.service_api.messages.schema_source import source_of_element
from ordo.service_api.messages.schema_xml import to_xml

SCHEMA_BYTES_MAX = 256 * 1024
"""The longest XML that the log takes."""
PACKED_BYTES_MAX = 8 * 1024 - 128
"""So long it may be packed: a record of the smallest log has 8 KiB, with what else it says."""

NO_SERVICE = -1
"""The service of what stands for the schemas of all."""
VALUES_MAX = 1 << 16
"""Values of all its messages: composites that refer twice to one another have twice as many at each level."""

_schemas: dict[bytes, Schema] = {}
"""By digest: the classes that were made stay, since nothing forgets a class of messages."""
_numbers = count()


class PackedSchema(NamedTuple):
    """A schema as it is in a record: SHA-256 of its XML, and the XML as a zlib stream."""

    digest: bytes
    packed: bytes


class LoggedSchema(NamedTuple):
    """A schema of the log: the position after its record, and the service whose messages it says."""

    position: int
    service_id: int
    digest: bytes
    packed: bytes

    @classmethod
    def lost(cls, position: int, reason: str) -> LoggedSchema:
        """Return what stands for all schemas that the log may have behind a position, where these cannot be known."""
        return cls(position, NO_SERVICE, b"", reason.encode())

    @property
    def schema(self) -> Schema:
        """The classes of its messages. Raises MessageError for what is damaged or lost."""
        if not self.digest:
            raise MessageError(self.packed.decode())
        return unpack_schema(self.digest, self.packed)


def pack_schema(schema: Schema) -> PackedSchema:
    """Return a schema as it is written. Raises MessageError for one that the log cannot keep."""
    xml = to_xml(schema).encode()
    packed = zlib.compress(xml, 9)
    if len(xml) > SCHEMA_BYTES_MAX or len(packed) > PACKED_BYTES_MAX:
        raise MessageError(
            f"schema {schema.name} has {len(xml)} bytes as XML, {len(packed)} of them packed: the log takes "
            f"{SCHEMA_BYTES_MAX} and {PACKED_BYTES_MAX}; divide its messages among schemas"
        )
    found = PackedSchema(sha256(xml).digest(), packed)
    if lost := breaks(schema, unpack_schema(*found)):
        raise MessageError(f"schema {schema.name} is not the same once it is XML: {lost[0]}")
    return found


def unpack_xml(digest: bytes, packed: bytes) -> str:
    """Return the XML of a schema. Raises MessageError for what is damaged, or longer than anything that is written."""
    if len(packed) > PACKED_BYTES_MAX:
        raise MessageError(f"schema {digest.hex()[:16]} has {len(packed)} bytes: allowed are {PACKED_BYTES_MAX}")
    stream = zlib.decompressobj()
    try:
        xml = stream.decompress(packed, SCHEMA_BYTES_MAX + 1)
        text = xml.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise MessageError(f"schema {digest.hex()[:16]} cannot be unpacked: {error}") from error
    if len(xml) > SCHEMA_BYTES_MAX or not stream.eof or stream.unused_data or sha256(xml).digest() != digest:
        raise MessageError(f"schema {digest.hex()[:16]} is damaged: its bytes are not those of its digest")
    return text


def unpack_schema(digest: bytes, packed: bytes) -> Schema:
    """Return a schema with classes for its messages. Raises MessageError for what is damaged, or is no schema."""
    xml = unpack_xml(digest, packed)
    found = _schemas.get(digest)
    if found is None:
        found = _schemas[digest] = _schema_of(xml, f"logged_{digest.hex()}")
    return found


def _schema_of(xml: str, name: str) -> Schema:
    """Return the schema that XML of strangers says: no entities, no other files, no end of memory."""
    if "<!" in xml:
        raise MessageError("a schema of the log has a DOCTYPE, an entity or a comment: none is allowed")
    module = ModuleType(f"ordo_schema_{next(_numbers)}_{name}")  # threads may read the same schema
    sys.modules[module.__name__] = module  # annotations are looked up there
    try:
        root = ElementTree.fromstring(xml)
        if any(one.tag.rpartition("}")[2] == "include" for one in root.iter()):
            raise MessageError("a schema of the log includes files: none can be included")
        exec(compile(source_of_element(root, Path(name)), name, "exec"), module.__dict__)
        found: Schema = module.__dict__["SCHEMA"]
        known: dict[type, int] = {}
        if sum(count_values(one, known) for one in found.messages) > VALUES_MAX:
            raise MessageError(f"a schema of the log has over {VALUES_MAX} values, with those of composites")
    except MessageError:
        raise
    except Exception as error:  # whatever damage makes of it: numbers too large, types that refer to themselves
        raise MessageError(f"a schema of the log cannot be read: {type(error).__name__}: {error}") from error
    finally:
        sys.modules.pop(module.__name__, None)
    return found


def count_values(of_class: type, known: dict[type, int]) -> int:
    """Return how many values a message has, with those of its composites and of one row of each group.

    `known` has what was counted already.
    """
    if of_class not in known:
        layout = layout_of_message(of_class)
        inner = [one.of for one in layout.fields if one.kind == COMPOSITE]
        inner += [one.row_class for one in layout.groups]
        known[of_class] = len(layout.parts) + sum(count_values(one, known) for one in inner)
    return known[of_class]


def extends(own: Schema, in_force: Schema) -> bool:
    """Return whether programs with a schema read all that the one in force says, and the reverse."""
    return not breaks(in_force, own)


def describe_conflict(own: Schema, in_force: Schema) -> str:
    """Return what keeps a program from going on with the schema in force; empty where nothing does.

    Either may be the newer one: `own` extends what is in force, or is of a program that was not upgraded yet.
    """
    if extends(own, in_force) or extends(in_force, own):
        return ""
    is_newer = own.version >= in_force.version
    found = breaks(in_force, own) if is_newer else breaks(own, in_force)
    of_field = next((one for one in found if "." in one.partition(" ")[0]), found[0])
    return (
        f"{of_field}; schema {in_force.id} is in force in version {in_force.version}, and "
        f"{'that of this code' if is_newer else 'this code'} does not go with it: keep what the log has and add to it, "
        "or give the changed messages another schema_id"
    )


def describe_lack(own: Schema, in_force: Schema) -> str:
    """Return what a program lacks of the schema in force, though it reads all that it has; empty where nothing."""
    lacks = [one for one in breaks(in_force, own) if not one.startswith("the version is ")]
    if not lacks:
        return ""
    return (
        f"{lacks[0]}; schema {in_force.id} in force, in version {in_force.version}, has it, and the log takes no newer "
        "one from code without it: keep messages and fields for good, or use another schema_id"
    )
