"""Writes the SBE schema in XML of messages, for tools and programs in other languages (FIX SBE 1.0)."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import count
from typing import Any

from ordo.service_api.messages.codec import codec_of
from ordo.service_api.messages.fields import PRIMITIVES, Primitive, Rows, primitive_of
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
from ordo.service_api.messages.schema_file import ARRAY_MEANING, BYTES_MEANING, ENUM_MEANING, LENGTHS
from ordo.service_api.messages.schema_source import BOOLEANS, HEADER

DATA_LENGTH_MAX = 1 << 30
"""The longest value of variable length whose length is a uint32."""
DIMENSION_MAX = (1 << 31) - 1
"""The most rows of a group, and the longest of them, where these are uint32."""
HEADER_NAME = "messageHeader"
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
        self._written: dict[str, object] = dict.fromkeys(
            [*LENGTHS, HEADER_NAME, *(one.__name__ for one in schema.messages)]
        )
        """Name of a type -> what it is a type of; None for names that no type may have."""

    def write(self) -> str:
        self._header()
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
            _mean(found, one.primitive.meaning, one.primitive.time_unit)
            _since(found, one.since)
        self._rest(element, layout, ids)

    def _rest(self, element: ElementTree.Element, layout: Layout, ids: dict[str, str]) -> None:
        """Add what follows the fields."""
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
            name, found = self._new_type(f"char{one.length_bytes}", ("char", one.length_bytes), "char")
            if found is not None:
                found.set("length", str(one.length_bytes))
            return name
        if one.kind in (RAW, ARRAY):
            return self._several(one)
        if one.kind == DECIMAL:
            return self._decimal(one)
        if one.kind in (BOOLEAN, NAMED_NUMBER, NAMED_CHARACTER, FLAGS):
            return self._named(one)
        if one.kind == COMPOSITE:
            return self._composite(one.of)
        return self._number_type(one)

    def _number_type(self, one: FieldLayout) -> str:
        """Return a number's type: SBE's own, or one with another null value or range."""
        changed = _changed(one)
        if not changed:
            return one.primitive.name
        is_optional = one.is_optional
        name, found = self._new_type(
            _suffixed(one.primitive.name, changed), (one.primitive, is_optional, *changed), one.primitive.name
        )
        if found is not None:
            if is_optional:
                found.set("presence", "optional")
            found.attrib.update(changed)
        return name

    def _several(self, one: FieldLayout) -> str:
        """Return the type of bytes or of an array. `uint8` of a length is bytes, and of length 1 a number."""
        own = one.primitive
        length = one.length_bytes // own.length_bytes
        is_array = one.kind == ARRAY
        is_plain = length > 1 and (own.name != "uint8" or not is_array)
        changed = _changed(one) if is_array else {}
        name = _suffixed(f"{own.name}x{length}", changed)
        name += f"_{own.time_unit}" if own.time_unit else ""
        name, found = self._new_type(
            name if is_plain else f"{name}_{ARRAY_MEANING if is_array else BYTES_MEANING}",
            (own, length, is_array, *changed),
            own.name,
        )
        if found is not None:
            found.set("length", str(length))
            found.attrib.update(changed)
            meaning = own.meaning if is_plain else ARRAY_MEANING if is_array else BYTES_MEANING
            _mean(found, meaning, own.time_unit)
        return name

    def _decimal(self, one: FieldLayout) -> str:
        changed = _changed(one)
        name = _suffixed(f"decimal{one.of}_{one.primitive.name}{'_optional' if one.is_optional else ''}", changed)
        name, found = self._new(name, (DECIMAL, one.of, one.primitive, one.is_optional, *changed), "composite")
        if found is not None:
            mantissa = ElementTree.SubElement(found, "type", name="mantissa", primitiveType=one.primitive.name)
            if one.is_optional:
                mantissa.set("presence", "optional")
            mantissa.attrib.update(changed)
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
        null = str(int(one.primitive.null))
        has_null = _has_null(one) and one.primitive.null != _usual(one.primitive).null
        tag, item = ("set", "choice") if one.kind == FLAGS else ("enum", "validValue")
        key = one.kind, one.of, one.primitive.name, has_null and null
        name, found = self._new(_suffixed(name, {"nullValue": null} if has_null else {}), key, tag)
        if found is not None:
            found.set("encodingType", one.primitive.name)
            if has_null:
                found.set("nullValue", null)
            texts = [(label, _text_of(one.kind, value)) for label, value in members]
            if one.kind == NAMED_NUMBER and set(texts) in BOOLEANS:
                found.set("semanticType", ENUM_MEANING)
            for label, text in texts:
                ElementTree.SubElement(found, item, name=label).text = text
        return name

    def _composite(self, of_class: type) -> str:
        name, found = self._new(of_class.__name__, of_class, "composite")
        if found is not None:
            self._types.remove(found)  # behind the types of its parts
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
            _mean(found, one.primitive.meaning, one.primitive.time_unit)
        if one.is_optional and one.kind != DECIMAL:
            found.set("presence", "optional")
        found.set("offset", str(one.place))

    def _dimension(self, rows: Rows) -> str:
        length, count = primitive_of(rows.length), primitive_of(rows.count)
        length_place, _, count_place, _, total = dimension_of(rows)
        name = "groupSizeEncoding"
        if (length.name, count.name, rows.dimension) != ("uint16", "uint16", None):
            name += f"_{length.name}_{count.name}" + "".join(f"_{place}" for place in rows.dimension or ())
        name, found = self._new(name, (length.name, count.name, dimension_of(rows)), "composite")
        if found is not None:
            parts = sorted([(length_place, "blockLength", length), (count_place, "numInGroup", count)])
            if parts[1][0] + parts[1][2].length_bytes < total:
                parts.append((total - 1, "padding", PRIMITIVES["uint8"]))
            for place, part, primitive in parts:
                entry = ElementTree.SubElement(found, "type", name=part, primitiveType=primitive.name)
                entry.set("offset", str(place))
                if primitive.length_bytes == 4:  # SBE's tools ask for it
                    entry.set("maxValue", str(DIMENSION_MAX))
        return name

    def _data_type(self, data: DataLayout) -> str:
        name = f"var{'Text' if data.is_text else 'Data'}_{data.length.name}"
        name, found = self._new(name, (data.is_text, data.length.name), "composite")
        if found is not None:
            length = ElementTree.SubElement(found, "type", name="length", primitiveType=data.length.name)
            if data.length.length_bytes == 4:  # SBE's tools ask for it
                length.set("maxValue", str(DATA_LENGTH_MAX))
            content = ElementTree.SubElement(found, "type", name="varData", primitiveType="uint8", length="0")
            if data.is_text:
                content.set("characterEncoding", "UTF-8")
        return name

    def _header(self) -> None:
        found = ElementTree.SubElement(self._types, "composite", name=HEADER_NAME)
        for part, primitive in HEADER:
            ElementTree.SubElement(found, "type", name=part, primitiveType=primitive)

    def _new_type(self, name: str, key: object, primitive: str) -> tuple[str, ElementTree.Element | None]:
        name, found = self._new(name, key, "type")
        if found is not None:
            found.set("primitiveType", primitive)
        return name, found

    def _new(self, wanted: str, key: object, tag: str) -> tuple[str, ElementTree.Element | None]:
        """Return the name of the type that `key` says all of, and its element unless it was there.

        Another type of the wanted name has it for good; the next one has a number behind it.
        """
        name, key = wanted, (tag, key)
        for number in count(2):
            if name not in self._written:
                self._written[name] = key
                return name, ElementTree.SubElement(self._types, tag, name=name)
            if self._written[name] == key:
                break
            name = f"{wanted}_{number}"
        return name, None


def _usual(primitive: Primitive) -> Primitive:
    return PRIMITIVES.get(primitive.name, primitive)


def _has_null(one: FieldLayout) -> bool:
    """Return whether the value that stands for None matters: for what came later, too, as it may be None on import."""
    return one.is_optional or bool(one.since)


def _changed(one: FieldLayout) -> dict[str, str]:
    """Return what a number says of its null value and range, where these are not SBE's own."""
    usual, own = PRIMITIVES[one.primitive.name], one.primitive
    if own.code in "fd" or (own.null, own.low, own.high) == (usual.null, usual.low, usual.high):
        return {}
    found = {"minValue": str(int(own.low)), "maxValue": str(int(own.high))}
    if _has_null(one):
        found["nullValue"] = str(int(own.null))
    return found


def _suffixed(name: str, changed: dict[str, str]) -> str:
    return "_".join([name, *changed.values()]).replace("-", "m")


def _text_of(kind: int, value: int | str) -> str:
    """Return the text of an enumeration's value: the place of a bit; the number of a character that XML has not."""
    if isinstance(value, int):
        return str(value.bit_length() - 1 if kind == FLAGS else int(value))
    return f"{ord(value):02}" if value < " " else str(value)


def _mean(element: ElementTree.Element, meaning: str, time_unit: str) -> None:
    if meaning:
        element.set("semanticType", meaning)
    if time_unit:
        element.set("timeUnit", time_unit)


def _since(element: ElementTree.Element, version: int) -> None:
    if version:
        element.set("sinceVersion", str(version))
