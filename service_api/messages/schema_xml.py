"""Writes the SBE schema in XML of messages, for tools and programs in other languages (FIX SBE 1.0)."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

from ordo.service_api.messages.codec import codec_of
from ordo.service_api.messages.fields import PRIMITIVES, Rows, primitive_of
from ordo.service_api.messages.layout import (
    ARRAY,
    BOOLEAN,
    CHARACTERS,
    COMPOSITE,
    DECIMAL,
    FLAGS,
    NAMED_CHARACTER,
    NAMED_NUMBER,
    RAW,
    DataLayout,
    FieldLayout,
    Layout,
    dimension_of,
)
from ordo.service_api.messages.message import Schema, layout_of_message

DATA_LENGTH_MAX = 1 << 30
"""The longest value of variable length whose length is a uint32."""
NAMESPACE = "http://fixprotocol.io/2016/sbe"


def to_xml(schema: Schema) -> str:
    """Return the schema as XML, which SBE's tools read. Names are those of the classes and their fields."""
    return _Writer(schema).write()


class _Writer:
    """Makes the elements of one schema; each type is written once, when the first field needs it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        ElementTree.register_namespace("sbe", NAMESPACE)
        self._root = ElementTree.Element(
            f"{{{NAMESPACE}}}messageSchema",
            package=schema.name,
            id=str(schema.id),
            version=str(schema.version),
            semanticVersion=str(schema.version),
            byteOrder="bigEndian" if schema.is_big_endian else "littleEndian",
        )
        self._types = ElementTree.SubElement(self._root, "types")
        self._written: set[str] = set()

    def write(self) -> str:
        self._numbers("messageHeader", ("blockLength", "templateId", "schemaId", "version"))
        for one in self._schema.messages:
            codec, layout = codec_of(one), layout_of_message(one)
            element = ElementTree.SubElement(
                self._root, f"{{{NAMESPACE}}}message", name=one.__name__, id=str(codec.template_id)
            )
            element.set("blockLength", str(layout.block_length))
            self._block(element, layout)
        ElementTree.indent(self._root)
        text = ElementTree.tostring(self._root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'

    def _block(self, element: ElementTree.Element, layout: Layout) -> None:
        ids = {one.name: str(number) for number, one in enumerate(layout.parts, 1)}
        for one in layout.fields:
            found = ElementTree.SubElement(element, "field", name=one.name, id=ids[one.name], type=self._type(one))
            found.set("offset", str(one.place))
            if one.is_optional and one.kind != DECIMAL:
                found.set("presence", "optional")
            if one.primitive.meaning:
                found.set("semanticType", one.primitive.meaning)
            if one.primitive.time_unit:
                found.set("timeUnit", one.primitive.time_unit)
            _since(found, one.since)
        for group in layout.groups:
            found = ElementTree.SubElement(element, "group", name=group.name, id=ids[group.name])
            rows = layout_of_message(group.row_class)
            found.set("dimensionType", self._dimension(group.rows))
            found.set("blockLength", str(rows.block_length))
            _since(found, group.since)
            self._block(found, rows)
        for data in layout.data:
            found = ElementTree.SubElement(
                element, "data", name=data.name, id=ids[data.name], type=self._data_type(data)
            )
            _since(found, data.since)

    def _type(self, one: FieldLayout) -> str:
        """Return the name of a field's type, which is written unless it is there."""
        if one.kind == CHARACTERS:
            return self._simple(f"char{one.length_bytes}", "char", one.length_bytes)
        if one.kind in (RAW, ARRAY):
            count = one.length_bytes // one.primitive.length_bytes
            return self._simple(f"{one.primitive.name}x{count}", one.primitive.name, count)
        if one.kind == DECIMAL:
            return self._decimal(one)
        if one.kind in (BOOLEAN, NAMED_NUMBER, NAMED_CHARACTER, FLAGS):
            return self._named(one)
        if one.kind == COMPOSITE:
            return self._composite(one.of)
        return self._number_type(one)

    def _number_type(self, one: FieldLayout) -> str:
        """Return a number's type: SBE's own, or one with another null value or range."""
        usual, own = PRIMITIVES[one.primitive.name], one.primitive
        if own.code in "fd" or (own.null, own.low, own.high) == (usual.null, usual.low, usual.high):
            return own.name
        changed = {"minValue": int(own.low), "maxValue": int(own.high)}
        if one.is_optional:
            changed["nullValue"] = int(own.null)
        name = f"{own.name}_{'_'.join(str(value) for value in changed.values())}".replace("-", "m")
        if self._is_new(name):
            found = ElementTree.SubElement(self._types, "type", name=name, primitiveType=own.name)
            if one.is_optional:
                found.set("presence", "optional")
            for key, value in changed.items():
                found.set(key, str(value))
        return name

    def _simple(self, name: str, primitive: str, length: int) -> str:
        if self._is_new(name):
            ElementTree.SubElement(self._types, "type", name=name, primitiveType=primitive, length=str(length))
        return name

    def _decimal(self, one: FieldLayout) -> str:
        name = f"decimal{one.of}_{one.primitive.name}{'_optional' if one.is_optional else ''}"
        if self._is_new(name):
            found = ElementTree.SubElement(self._types, "composite", name=name)
            mantissa = ElementTree.SubElement(found, "type", name="mantissa", primitiveType=one.primitive.name)
            if one.is_optional:
                mantissa.set("presence", "optional")
            exponent = ElementTree.SubElement(found, "type", name="exponent", primitiveType="int8")
            exponent.set("presence", "constant")
            exponent.text = str(-one.of)
        return name

    def _named(self, one: FieldLayout) -> str:
        members: list[tuple[str, Any]] = [("F", 0), ("T", 1)]
        name = "BooleanType"
        if one.kind != BOOLEAN:
            name = one.of.__name__
            members = [(each.name, each.value) for each in one.of]
        if self._is_new(name):
            tag, item = ("set", "choice") if one.kind == FLAGS else ("enum", "validValue")
            found = ElementTree.SubElement(self._types, tag, name=name, encodingType=one.primitive.name)
            for label, value in members:
                text = str(value.bit_length() - 1) if one.kind == FLAGS else str(value)
                ElementTree.SubElement(found, item, name=label).text = text
        return name

    def _composite(self, of_class: type) -> str:
        name = of_class.__name__
        if self._is_new(name):
            found = ElementTree.Element("composite", name=name)
            for one in layout_of_message(of_class).fields:
                self._part(found, one)
            self._types.append(found)
        return name

    def _part(self, composite: ElementTree.Element, one: FieldLayout) -> None:
        """Add a part of a composite: a number where it stands, another type by its name."""
        type_name = self._type(one)
        if type_name != one.primitive.name and one.kind != CHARACTERS:
            found = ElementTree.SubElement(composite, "ref", name=one.name, type=type_name)
        else:
            found = ElementTree.SubElement(composite, "type", name=one.name, primitiveType=one.primitive.name)
            if one.kind == CHARACTERS:
                found.set("length", str(one.length_bytes))
            if one.is_optional:
                found.set("presence", "optional")
        found.set("offset", str(one.place))

    def _dimension(self, rows: Rows) -> str:
        length, count = primitive_of(rows.length), primitive_of(rows.count)
        length_place, _, count_place, _, _ = dimension_of(rows)
        name = "groupSizeEncoding"
        if (length.name, count.name, rows.dimension) != ("uint16", "uint16", None):
            name += f"_{length.name}_{count.name}" + "".join(f"_{place}" for place in rows.dimension or ())
        if self._is_new(name):
            found = ElementTree.SubElement(self._types, "composite", name=name)
            for part, primitive, place in (("blockLength", length, length_place), ("numInGroup", count, count_place)):
                entry = ElementTree.SubElement(found, "type", name=part, primitiveType=primitive.name)
                entry.set("offset", str(place))
        return name

    def _data_type(self, data: DataLayout) -> str:
        name = f"var{'Text' if data.is_text else 'Data'}_{data.length.name}"
        if self._is_new(name):
            found = ElementTree.SubElement(self._types, "composite", name=name)
            length = ElementTree.SubElement(found, "type", name="length", primitiveType=data.length.name)
            if data.length.length_bytes == 4:  # SBE's tools ask for it
                length.set("maxValue", str(DATA_LENGTH_MAX))
            content = ElementTree.SubElement(found, "type", name="varData", primitiveType="uint8", length="0")
            if data.is_text:
                content.set("characterEncoding", "UTF-8")
        return name

    def _numbers(self, name: str, parts: tuple[str, ...]) -> None:
        found = ElementTree.SubElement(self._types, "composite", name=name)
        for part in parts:
            ElementTree.SubElement(found, "type", name=part, primitiveType="uint16")

    def _is_new(self, name: str) -> bool:
        if name in self._written:
            return False
        self._written.add(name)
        return True


def _since(element: ElementTree.Element, version: int) -> None:
    if version:
        element.set("sinceVersion", str(version))
