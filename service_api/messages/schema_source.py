"""Writes Python classes for an SBE schema in XML, such as exchanges publish (FIX SBE 1.0, sbe-encoding.md)."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ordo.runtime.errors import MessageError
from ordo.service_api.messages.fields import PRIMITIVES, Primitive

CLASS_NAMES = {
    **{f"int{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}" for bits in (8, 16, 32, 64)},
    "float": "Float32",
    "double": "Float64",
}
HEADER = [("blockLength", "uint16"), ("templateId", "uint16"), ("schemaId", "uint16"), ("version", "uint16")]
CLOCKS = {
    ("uint64", "UTCTimestamp", "millisecond"): "TimestampMs",
    ("uint64", "UTCTimestamp", "microsecond"): "TimestampUs",
    ("uint64", "UTCTimestamp", "nanosecond"): "TimestampNs",
}
IMPORTS = {
    "decimal": ["Decimal"],
    "enum": ["IntEnum", "IntFlag", "StrEnum"],
    "typing": ["Annotated", "ClassVar"],
    "ordo.messages": [
        *(
            "Array",
            "At",
            "Bytes",
            "Chars",
            "Fixed",
            *sorted([*CLASS_NAMES.values(), *CLOCKS.values()]),
            "Rows",
            "Schema",
            "Sized",
        ),
        *("composite", "field", "group", "message", "number"),
    ],
}
"""Module to what the classes may need of it."""
TAKEN = {name for names in IMPORTS.values() for name in names} | {
    "bool",
    "bytes",
    "float",
    "int",
    "list",
    "str",
    "tuple",
}
"""Names that a class must not hide."""
BOOLEANS = {("F", "0"), ("T", "1")}, {("FALSE", "0"), ("TRUE", "1")}, {("False", "0"), ("True", "1")}
TEXTS = ("utf-8", "utf8", "ascii", "us-ascii")
INDENT = "    "


class Spelling(NamedTuple):
    """How a type is written in an annotation."""

    annotation: str
    length_bytes: int = 0
    is_optional: bool = False
    constant: str = ""
    """The value of a constant, which takes no room in a message."""
    is_plain: bool = True
    """Whether None can stand for a value that an older version lacks."""


def source_of(path: Path) -> str:
    """Return the source of a module with a class for each message, and all that these need.

    Raises MessageError when the file is no SBE schema, or has what the classes cannot say.
    """
    try:
        root = ElementTree.parse(path).getroot()
        return _Source(root, path).write()
    except (ElementTree.ParseError, OSError) as error:
        raise MessageError(f"{path} cannot be read as an SBE schema: {error}") from error
    except KeyError as error:
        raise MessageError(f"{path} cannot be read as an SBE schema: there is no {error}") from error
    except (ValueError, StopIteration) as error:
        raise MessageError(f"{path}: {error}") from error


class _Source:
    """The lines of one module; a class is written before the first that needs it."""

    def __init__(self, root: ElementTree.Element, path: Path) -> None:
        if _kind(root) != "messageSchema":
            raise ValueError("the root element is not messageSchema")
        self._root = root
        self._path = path
        self._is_big_endian = root.get("byteOrder") == "bigEndian"
        self._types: dict[str, ElementTree.Element] = {}
        self._classes: dict[str, str] = {}
        """Name of a class -> its source, in the order in which they are written."""
        self._lengths: dict[str, int] = {}
        """Name of a composite -> its bytes."""
        for types in _types_in(root, path, 0):
            for entry in types:
                self._types.setdefault(entry.attrib["name"], entry)
                for inner in entry if _kind(entry) == "composite" else ():
                    if _kind(inner) in ("enum", "set", "composite"):
                        self._types.setdefault(inner.attrib["name"], inner)

    def write(self) -> str:
        self._check_header()
        messages = [one for one in self._root if _kind(one) == "message"]
        names = [self._message(one) for one in messages]
        if not names:
            raise ValueError("there are no messages")
        package = self._root.get("package") or self._path.stem
        body = "\n\n".join(self._classes.values())
        body += f"\n\nSCHEMA = Schema({_quoted(package)}, {', '.join(names)})\n"
        used = set(re.findall(r"\w+", re.sub(r'""".*?"""', "", body)))
        imports = [
            f"from {module} import {', '.join(found)}"
            for module, all_names in IMPORTS.items()
            if (found := [name for name in all_names if name in used])
        ]
        imports[-1] = "\n".join(["", *textwrap.wrap(imports[-1].replace("import ", "import (") + ")", 100)])
        head = f'"""Messages of {_text(package)}, made from {_text(self._path.name)} by `ordo schema import`."""'
        return f"{head}\n\nfrom __future__ import annotations\n\n" + "\n".join(imports) + f"\n\n\n{body}"

    def _check_header(self) -> None:
        name = self._root.get("headerType", "messageHeader")
        header = [(one.attrib["name"], self._primitive_name(one)) for one in self._types[name]]
        if header != HEADER:
            found = ", ".join(f"{part} {primitive}" for part, primitive in header)
            raise ValueError(f"its message header is {found}: allowed is SBE's own, four uint16")

    def _message(self, element: ElementTree.Element) -> str:
        name = _class_name(element.attrib["name"])
        since = max((int(one.get("sinceVersion", "0")) for one in element.iter()), default=0)
        options = [f"id={int(element.attrib['id'])}", f"version={max(since, int(self._root.get('version', '0')))}"]
        options.append(f"schema_id={int(self._root.attrib['id'])}")
        self._block(name, element, "message", options)
        return name

    def _block(self, name: str, element: ElementTree.Element, decorator: str, options: list[str]) -> None:
        """Write the class of a message or of a group's rows."""
        lines: list[str] = []
        end = 0
        for child in element:
            if _kind(child) == "field":
                line, end = self._field(child, end)
                lines.append(line)
        for child in element:
            if _kind(child) == "group":
                lines.append(self._group(name, child))
        for child in element:
            if _kind(child) == "data":
                lines.append(self._data(child))
        description = element.get("description") or f"{element.attrib['name']}, as the schema has it."
        options = [*options, *self._options(element, end)]
        head = f"@{decorator}({', '.join(options)})" if options else f"@{decorator}"
        self._add(name, f"{head}\nclass {name}:", description, lines)

    def _options(self, element: ElementTree.Element, end: int) -> list[str]:
        found = ['byte_order="big"'] if self._is_big_endian else []
        if int(element.get("blockLength", "0")) not in (0, end):
            found.append(f"block_length={int(element.attrib['blockLength'])}")
        return found

    def _add(self, name: str, head: str, description: str, lines: list[str]) -> None:
        if name in self._classes:
            raise ValueError(f"there are two types or messages called {name}")
        text = f'{INDENT}"""{_text(description)}"""\n\n'
        self._classes[name] = f"{head}\n{text}" + "".join(f"{INDENT}{line}\n" for line in lines or ["pass"])

    def _field(self, element: ElementTree.Element, end: int) -> tuple[str, int]:
        """Return the line of a field that follows what ends at `end`, and where the field ends."""
        since, found = int(element.get("sinceVersion", "0")), self._spelling(element)
        if since and not found.is_plain and not found.constant:
            name = _identifier(element.attrib["name"])
            raise ValueError(f"{name} came with version {since}, and its type has no value that stands for none")
        return _line(element, found, end, since)

    def _spelling(self, element: ElementTree.Element) -> Spelling:
        """Return how the type of a message's field is written."""
        name, presence = element.attrib["type"], element.get("presence", "required")
        if presence == "constant" and "valueRef" in element.attrib:
            return self._constant_by_reference(element.attrib["valueRef"])
        if name in PRIMITIVES or name == "char":
            return self._simple(name, 1, presence, element.get("nullValue"), element)
        return self._named(self._types[name], presence)

    def _named(self, entry: ElementTree.Element, presence: str) -> Spelling:
        kind = _kind(entry)
        if kind == "type":
            presence = entry.get("presence", presence)
            if presence == "constant":
                if "valueRef" in entry.attrib:
                    return self._constant_by_reference(entry.attrib["valueRef"])
                return Spelling("", constant=_constant(entry.attrib["primitiveType"], entry.text or ""))
            length = int(entry.get("length", "1"))
            return self._simple(entry.attrib["primitiveType"], length, presence, entry.get("nullValue"), entry)
        if kind in ("enum", "set"):
            return self._enumeration(entry, presence == "optional")
        if kind == "composite":
            return self._composite(entry)
        raise ValueError(f"{entry.get('name')} is a {kind}: allowed are type, enum, set and composite")

    def _simple(
        self, name: str, length: int, presence: str, null: str | None, element: ElementTree.Element
    ) -> Spelling:
        is_optional = presence == "optional"
        if name == "char":
            if null not in (None, "0"):
                raise ValueError(f"{element.attrib['name']}: char has the null value {null}: allowed is 0")
            return Spelling(f"Annotated[str, Chars({length})]", length, is_optional)
        if name == "uint8" and length > 1:
            return Spelling(f"Annotated[bytes, Bytes({length})]", length, is_plain=False)
        if length > 1:
            kind = "float" if name in ("float", "double") else "int"
            annotation = f"Annotated[tuple[{kind}, ...], Array({CLASS_NAMES[name]}, {length})]"
            return Spelling(annotation, length * PRIMITIVES[name].length_bytes, is_plain=False)
        clock = CLOCKS.get((name, element.get("semanticType", ""), element.get("timeUnit", "")))
        annotation = clock or _number(PRIMITIVES[name], null, element)
        return Spelling(annotation, PRIMITIVES[name].length_bytes, is_optional)

    def _constant_by_reference(self, reference: str) -> Spelling:
        enum_name, _, value_name = reference.rpartition(".")
        self._enumeration(self._types[enum_name], False)
        if all(entry.attrib["name"] != value_name for entry in self._types[enum_name]):
            raise ValueError(f"valueRef {reference!r} names no value of an enum")
        return Spelling("", constant=f"{_class_name(enum_name)}.{_identifier(value_name)}")

    def _enumeration(self, entry: ElementTree.Element, is_optional: bool) -> Spelling:
        """Return how an enum or a set is written; its class is added unless it is there."""
        name, primitive = _class_name(entry.attrib["name"]), self._primitive_name(entry, entry.attrib["encodingType"])
        values = [(one.attrib["name"], (one.text or "").strip()) for one in entry]
        if primitive == "uint8" and set(values) in BOOLEANS:
            return Spelling("bool", 1, is_optional)
        is_flags = _kind(entry) == "set"
        base = "IntFlag" if is_flags else "StrEnum" if primitive == "char" else "IntEnum"
        if name not in self._classes:
            lines = []
            for label, text in values:
                value = _quoted(text) if base == "StrEnum" else str(1 << int(text)) if is_flags else str(int(text))
                lines.append(f"{_identifier(label)} = {value}")
            self._add(name, f"class {name}({base}):", entry.get("description") or f"{name} of the schema.", lines)
        if primitive in ("char", "uint8"):
            return Spelling(name, 1, is_optional)
        annotation = f"Annotated[{name}, {CLASS_NAMES[primitive]}]"
        return Spelling(annotation, PRIMITIVES[primitive].length_bytes, is_optional)

    def _composite(self, entry: ElementTree.Element) -> Spelling:
        """Return how a composite is written: a decimal where it is one, else a class of its own."""
        parts = [one for one in entry if _kind(one) != "description"]
        if fixed := self._decimal(parts):
            return fixed
        name = _class_name(entry.attrib["name"])
        if name not in self._lengths:
            lines, end = [], 0
            for one in parts:
                line, end = self._part(one, end)
                lines.append(line)
            self._lengths[name] = end
            decorator = 'composite(byte_order="big")' if self._is_big_endian else "composite"
            self._add(name, f"@{decorator}\nclass {name}:", entry.get("description") or f"{name} of the schema.", lines)
        return Spelling(name, self._lengths[name], is_plain=False)

    def _decimal(self, parts: list[ElementTree.Element]) -> Spelling | None:
        """Return a decimal for a mantissa and a constant exponent that is not above zero."""
        by_name = {one.attrib["name"]: one for one in parts}
        if set(by_name) != {"mantissa", "exponent"} or by_name["exponent"].get("presence") != "constant":
            return None
        mantissa, exponent = by_name["mantissa"], int(by_name["exponent"].text or "0")
        name = self._primitive_name(mantissa)
        if exponent > 0 or name in ("float", "double") or "offset" in mantissa.attrib:
            return None
        spelling = _number(PRIMITIVES[name], mantissa.get("nullValue"), mantissa)
        annotation = f"Annotated[Decimal, Fixed({-exponent}, {spelling})]"
        return Spelling(annotation, PRIMITIVES[name].length_bytes, mantissa.get("presence") == "optional")

    def _part(self, element: ElementTree.Element, end: int) -> tuple[str, int]:
        """Return the line of a composite's part that follows what ends at `end`, and where the part ends."""
        entry = element
        if _kind(element) == "ref":
            type_name = element.attrib["type"]
            plain = ElementTree.Element("type", name=element.attrib["name"], primitiveType=type_name)
            entry = self._types.get(type_name, plain)
        return _line(element, self._named(entry, "required"), end)

    def _group(self, owner: str, element: ElementTree.Element) -> str:
        name = _identifier(element.attrib["name"])
        row_name = f"{owner}{name[:1].upper()}{name[1:]}"
        self._block(row_name, element, "group", [])
        dimension = {one.attrib["name"]: one for one in self._types[element.get("dimensionType", "groupSizeEncoding")]}
        places, end = {}, 0
        for part, entry in dimension.items():
            places[part] = int(entry.get("offset", end))
            end = places[part] + PRIMITIVES[self._primitive_name(entry)].length_bytes
        count, length = (CLASS_NAMES[self._primitive_name(dimension[one])] for one in ("numInGroup", "blockLength"))
        annotation = f"list[{row_name}]"
        found = (places["blockLength"], places["numInGroup"], end)
        sizes = [PRIMITIVES[self._primitive_name(dimension[one])].length_bytes for one in ("blockLength", "numInGroup")]
        if found != (0, sizes[0], sum(sizes)) or length != "UInt16":
            annotation = f"Annotated[{annotation}, Rows({count}, {found}, {length})]"
        elif count != "UInt16":
            annotation = f"Annotated[{annotation}, Rows({count})]"
        return f"{name}: {annotation} = {_late(int(element.get('sinceVersion', '0')), 'default_factory=list')}"

    def _data(self, element: ElementTree.Element) -> str:
        name, since = _identifier(element.attrib["name"]), int(element.get("sinceVersion", "0"))
        parts = {one.attrib["name"]: one for one in self._types[element.attrib["type"]]}
        length = CLASS_NAMES[self._primitive_name(parts["length"])]
        is_text = (parts["varData"].get("characterEncoding") or "").lower() in TEXTS
        empty = '""' if is_text else 'b""'
        kind = "str" if is_text else "bytes"
        annotation = kind if length == "UInt32" else f"Annotated[{kind}, Sized({length})]"
        return f"{name}: {annotation} = {_late(since, f'default={empty}')}"

    def _primitive_name(self, entry: ElementTree.Element, name: str | None = None) -> str:
        """Return the primitive type of a part, of an encoding or of the type that it refers to."""
        name = name or entry.get("primitiveType") or entry.attrib["type"]
        if name in PRIMITIVES or name == "char":
            return name
        return self._types[name].attrib["primitiveType"]


def _kind(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _types_in(root: ElementTree.Element, path: Path, depth: int) -> Iterator[ElementTree.Element]:
    """Iterate over the `types` elements of a schema and of the files of its folder that it includes."""
    for child in root:
        if _kind(child) == "types":
            yield child
        elif _kind(child) == "include":
            if depth > 8:
                raise ValueError("files include one another")
            included = path.parent / child.attrib["href"]
            tree = ElementTree.parse(included).getroot()
            yield from [tree] if _kind(tree) == "types" else _types_in(tree, included, depth + 1)


def _identifier(name: str) -> str:
    """Return a name of the schema as Python can have it: what Python keeps for itself gets an underscore."""
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name that a class or a field can have")
    return f"{name}_" if keyword.iskeyword(name) or name == "mro" else name


def _class_name(name: str) -> str:
    found = _identifier(name)
    return f"{found}_" if found in TAKEN else found


def _text(text: str) -> str:
    """Return a text of the schema as it may stand in a docstring."""
    return " ".join(text.replace("\\", "/").replace('"', "'").split())


def _quoted(text: str) -> str:
    return json.dumps(text)


def _line(element: ElementTree.Element, found: Spelling, end: int, since: int = 0) -> tuple[str, int]:
    """Return the line of a field or part that follows what ends at `end`, and where it ends."""
    name = _identifier(element.attrib["name"])
    if found.constant:
        return f"{name}: ClassVar = {found.constant}", end
    annotation, place = found.annotation, int(element.get("offset", end))
    if place != end:
        annotation = _annotated(annotation, f"At({place})")
    if found.is_optional or since:
        annotation += " | None"
    late = f" = field(since={since}, default=None, kw_only=True)" if since else ""
    return f"{name}: {annotation}{late}", place + found.length_bytes


def _annotated(annotation: str, mark: str) -> str:
    return f"{annotation[:-1]}, {mark}]" if annotation.startswith("Annotated[") else f"Annotated[{annotation}, {mark}]"


def _late(since: int, default: str) -> str:
    return f"field({f'since={since}, ' if since else ''}{default}, kw_only=True)"


def _number(primitive: Primitive, null: str | None, element: ElementTree.Element) -> str:
    """Return how a number is written: SBE's own type, or one with the schema's null value and range."""
    changed = {"null": null, "low": element.get("minValue"), "high": element.get("maxValue")}
    if primitive.code in "fd" or not any(changed.values()):
        return CLASS_NAMES[primitive.name]
    given = ", ".join(f"{key}={int(value)}" for key, value in changed.items() if value is not None)
    return f"Annotated[int, number({_quoted(primitive.name)}, {given})]"


def _constant(primitive: str, text: str) -> str:
    if primitive == "char":
        return _quoted(text)
    return f'float("{float(text)}")' if primitive in ("float", "double") else repr(int(text))
