"""Writes Python classes for an SBE schema in XML, such as exchanges publish (FIX SBE 1.0, sbe-encoding.md)."""

from __future__ import annotations

import json
import keyword
import re
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from ordo.runtime.errors import MessageError
from ordo.service_api.messages.fields import PRIMITIVES, SCALE_MAX
from ordo.service_api.messages.schema_file import (
    ARRAY_MEANING,
    BYTES_MEANING,
    CONSTANT,
    ENUM_MEANING,
    LENGTHS,
    OPTIONAL,
    Block,
    Composite,
    Data,
    Field,
    Group,
    NamedValues,
    Part,
    SchemaFile,
    SimpleType,
    Type,
    telling,
)

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


def source_of(path: Path) -> str:
    """Return the source of a module with a class for each message, and all that these need.

    Raises MessageError when the file is no SBE schema, or has what the classes cannot say.
    """
    with telling(path, MessageError):
        return _Source(SchemaFile(path), path.name).write()


def source_of_element(root: ElementTree.Element, path: Path) -> str:
    """Return the same for XML that was parsed, as it is in the log. Raises ValueError, KeyError."""
    return _Source(SchemaFile(path, root), path.name).write()


class _Source:
    """The lines of one module; a class is written before the first that needs it."""

    def __init__(self, file: SchemaFile, file_name: str) -> None:
        self._file = file
        self._file_name = file_name
        self._classes: dict[str, str] = {}
        """Name of a class -> its source, in the order in which they are written."""
        self._names: dict[int, str] = {}
        """Id of a type -> the name of its class."""
        self._taken: set[str] = set()
        """All names of classes."""

    def write(self) -> str:
        self._check_header()
        names = [_class_name(one.name) for one in self._file.messages]
        if not names:
            raise ValueError("there are no messages")
        self._reserve(names)
        for name, one in zip(names, self._file.messages, strict=True):
            self._message(name, one)
        package = self._file.package
        body = "\n\n".join(self._classes.values())
        body += f"\n\nSCHEMA = Schema({_quoted(package)}, {', '.join(names)})\n"
        used = set(re.findall(r"\w+", re.sub(r'""".*?"""', "", body)))
        imports = [
            f"from {module} import {', '.join(found)}"
            for module, all_names in IMPORTS.items()
            if (found := [name for name in all_names if name in used])
        ]
        imports[-1] = "\n".join(["", *textwrap.wrap(imports[-1].replace("import ", "import (") + ")", 100)])
        head = f'"""Messages of {_text(package)}, made from {_text(self._file_name)} by `ordo schema import`."""'
        return f"{head}\n\nfrom __future__ import annotations\n\n" + "\n".join(imports) + f"\n\n\n{body}"

    def _check_header(self) -> None:
        header = [(part.name, _primitive_of(part)) for part in self._file.header.parts]
        if header != HEADER:
            found = ", ".join(f"{part} {primitive}" for part, primitive in header)
            raise ValueError(f"its message header is {found}: allowed is SBE's own, four uint16")

    def _reserve(self, names: list[str]) -> None:
        """Keep names for the messages: other classes get an underscore where they would have the same."""
        for name in names:
            if name in self._taken:
                raise ValueError(f"there are two messages called {name}")
            self._taken.add(name)

    def _unique(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _message(self, name: str, block: Block) -> None:
        options = [f"id={block.number}", f"version={max(block.newest, self._file.version)}"]
        self._block(name, block, "message", [*options, f"schema_id={self._file.schema_id}"])

    def _block(self, name: str, block: Block, decorator: str, options: list[str]) -> None:
        """Write the class of a message or of a group's rows."""
        lines: list[str] = []
        end = 0
        names = [one.name for one in block.fields] + [one.block.name for one in block.groups]
        _check_names(name, names + [one.name for one in block.data])
        for field in block.fields:
            line, end = self._field(field, end)
            lines.append(line)
        lines += [self._group(name, group) for group in block.groups]
        lines += [self._data(data) for data in block.data]
        options = [*options, *self._options(block, end)]
        head = f"@{decorator}({', '.join(options)})" if options else f"@{decorator}"
        self._add(name, f"{head}\nclass {name}:", block.description or f"{block.name}, as the schema has it.", lines)

    def _options(self, block: Block, end: int) -> list[str]:
        found = ['byte_order="big"'] if self._file.is_big_endian else []
        if block.block_length not in (0, end):
            found.append(f"block_length={block.block_length}")
        return found

    def _add(self, name: str, head: str, description: str, lines: list[str]) -> None:
        text = f'{INDENT}"""{_text(description)}"""\n\n'
        self._classes[name] = f"{head}\n{text}" + "".join(f"{INDENT}{line}\n" for line in lines or ["pass"])

    def _field(self, field: Field, end: int) -> tuple[str, int]:
        """Return the line of a field that follows what ends at `end`, and where the field ends."""
        found = self._spelling(field)
        return _line(field.name, found, end if field.offset is None else field.offset, end, field.since)

    def _spelling(self, field: Field) -> Spelling:
        """Return how the type of a message's field is written."""
        if field.presence == CONSTANT and field.value_ref is not None:
            return self._constant_by_reference(field.value_ref)
        return self._named(field.type, field.presence)

    def _named(self, entry: Type, presence: str) -> Spelling:
        if isinstance(entry, NamedValues):
            return self._enumeration(entry, presence == OPTIONAL)
        if isinstance(entry, Composite):
            return self._composite(entry)
        presence = entry.presence or presence
        if presence != CONSTANT:
            return _simple(entry, presence == OPTIONAL)
        if entry.value_ref is not None:
            return self._constant_by_reference(entry.value_ref)
        return Spelling("", constant=_constant(entry.primitive, entry.text))

    def _constant_by_reference(self, reference: str) -> Spelling:
        enum, value_name, text = self._file.referred(reference)
        if self._enumeration(enum, False).annotation == "bool":
            return Spelling("", constant=str(text != "0"))
        return Spelling("", constant=f"{self._names[id(enum)]}.{_identifier(value_name)}")

    def _enumeration(self, entry: NamedValues, is_optional: bool) -> Spelling:
        """Return how an enum or a set is written; its class is added unless it is there."""
        null = "" if entry.is_set or entry.primitive == "char" else _other_null(entry)
        if entry.primitive == "uint8" and set(entry.values) in BOOLEANS and entry.meaning != ENUM_MEANING:
            return Spelling(f"Annotated[bool, {null}]" if null else "bool", 1, is_optional)
        base = "IntFlag" if entry.is_set else "StrEnum" if entry.primitive == "char" else "IntEnum"
        if id(entry) not in self._names:
            name = self._names[id(entry)] = self._unique(_class_name(entry.name))
            _check_names(name, [label for label, _ in entry.values])
            lines = []
            for label, text in entry.values:
                value = _quoted(text) if base == "StrEnum" else str(1 << int(text) if entry.is_set else int(text))
                lines.append(f"{_identifier(label)} = {value}")
            self._add(name, f"class {name}({base}):", entry.description or f"{name} of the schema.", lines)
        name = self._names[id(entry)]
        if entry.primitive in ("char", "uint8") and not null:
            return Spelling(name, 1, is_optional)
        return Spelling(f"Annotated[{name}, {null or CLASS_NAMES[entry.primitive]}]", entry.length_bytes, is_optional)

    def _composite(self, entry: Composite) -> Spelling:
        """Return how a composite is written: a decimal where it is one, else a class of its own."""
        if fixed := _decimal(entry):
            return fixed
        if id(entry) not in self._names:
            name = self._names[id(entry)] = self._unique(_class_name(entry.name))
            _check_names(name, [part.name for part in entry.parts])
            lines, end = [], 0
            for part in entry.parts:
                line, end = _line(part.name, self._named(part.type, part.presence), part.offset, end)
                lines.append(line)
            decorator = 'composite(byte_order="big")' if self._file.is_big_endian else "composite"
            self._add(name, f"@{decorator}\nclass {name}:", entry.description or f"{name} of the schema.", lines)
        return Spelling(self._names[id(entry)], entry.length_bytes)

    def _group(self, owner: str, group: Group) -> str:
        name = _identifier(group.block.name)
        row_name = self._unique(f"{owner}{name[:1].upper()}{name[1:]}")
        self._block(row_name, group.block, "group", [])
        length, count = (group.dimension.part(one) for one in ("blockLength", "numInGroup"))
        count_name, length_name = (CLASS_NAMES[_primitive_of(one)] for one in (count, length))
        annotation = f"list[{row_name}]"
        found = (length.offset, count.offset, group.dimension.length_bytes)
        usual = (0, length.type.length_bytes, length.type.length_bytes + count.type.length_bytes)
        if found != usual or length_name != "UInt16":
            annotation = f"Annotated[{annotation}, Rows({count_name}, {found}, {length_name})]"
        elif count_name != "UInt16":
            annotation = f"Annotated[{annotation}, Rows({count_name})]"
        return f"{name}: {annotation} = {_late(group.block.since, 'default_factory=list')}"

    def _data(self, data: Data) -> str:
        content = data.composite.part("varData").type
        length = CLASS_NAMES[_primitive_of(data.composite.part("length"))]
        is_text = isinstance(content, SimpleType) and (content.charset or "").lower() in TEXTS
        kind, empty = ("str", '""') if is_text else ("bytes", 'b""')
        annotation = kind if length == "UInt32" else f"Annotated[{kind}, Sized({length})]"
        return f"{_identifier(data.name)}: {annotation} = {_late(data.since, f'default={empty}')}"


def _primitive_of(part: Part) -> str:
    """Return the primitive type of a part. Raises ValueError for a composite."""
    if isinstance(part.type, Composite):
        raise ValueError(f"{part.name} is a composite: allowed is a number")
    return part.type.primitive


def _simple(entry: SimpleType, is_optional: bool) -> Spelling:
    name, length = entry.primitive, entry.length
    if name == "char":
        if entry.null not in (None, "0"):
            raise ValueError(f"{entry.name}: char has the null value {entry.null}: allowed is 0")
        return Spelling(f"Annotated[str, Chars({length})]", length, is_optional)
    if name == "uint8" and entry.meaning != ARRAY_MEANING and (length > 1 or entry.meaning == BYTES_MEANING):
        return Spelling(f"Annotated[bytes, Bytes({length})]", length)
    if length > 1 or entry.meaning == ARRAY_MEANING:
        kind = "float" if name in ("float", "double") else "int"
        meaning = "UTCTimestamp" if entry.meaning == ARRAY_MEANING else entry.meaning
        of = CLOCKS.get((name, meaning, entry.time_unit)) or _numbers(entry)
        return Spelling(f"Annotated[tuple[{kind}, ...], Array({of}, {length})]", length * LENGTHS[name])
    return Spelling(CLOCKS.get((name, entry.meaning, entry.time_unit)) or _number(entry), LENGTHS[name], is_optional)


def _decimal(entry: Composite) -> Spelling | None:
    """Return a decimal for a mantissa and a constant exponent that is not above zero."""
    parts = {part.name: part.type for part in entry.parts}
    mantissa, exponent = parts.get("mantissa"), parts.get("exponent")
    if len(entry.parts) != 2 or not isinstance(mantissa, SimpleType) or not isinstance(exponent, SimpleType):
        return None
    if exponent.presence != CONSTANT or entry.part("mantissa").is_placed:
        return None
    digits = -int(exponent.text or "0")
    if digits < 0 or mantissa.primitive in ("char", "float", "double"):
        return None
    if digits > SCALE_MAX:
        raise ValueError(f"exponent -{digits} of {entry.name}: an int8 has none below -{SCALE_MAX}")
    annotation = f"Annotated[Decimal, Fixed({digits}, {_number(mantissa)})]"
    return Spelling(annotation, LENGTHS[mantissa.primitive], mantissa.presence == OPTIONAL)


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


def _line(label: str, found: Spelling, place: int, end: int, since: int = 0) -> tuple[str, int]:
    """Return the line of a field or part at `place`, behind what ends at `end`, and where it ends."""
    name = _identifier(label)
    if found.constant:
        return f"{name}: ClassVar = {found.constant}", end
    annotation = found.annotation if place == end else _annotated(found.annotation, f"At({place})")
    if found.is_optional or since:
        annotation += " | None"
    late = f" = field(since={since}, default=None, kw_only=True)" if since else ""
    return f"{name}: {annotation}{late}", place + found.length_bytes


def _annotated(annotation: str, mark: str) -> str:
    return f"{annotation[:-1]}, {mark}]" if annotation.startswith("Annotated[") else f"Annotated[{annotation}, {mark}]"


def _late(since: int, default: str) -> str:
    return f"field({f'since={since}, ' if since else ''}{default}, kw_only=True)"


def _number(entry: SimpleType) -> str:
    """Return how a number is written: SBE's own type, or one with the schema's null value and range."""
    found = _numbers(entry)
    return f"Annotated[int, {found}]" if found.startswith("number(") else found


def _numbers(entry: SimpleType) -> str:
    """Return how the numbers of a type are named: as SBE's own, or with the schema's null value and range."""
    changed = {"null": entry.null, "low": entry.low, "high": entry.high}
    if entry.primitive in ("float", "double") or not any(changed.values()):
        return CLASS_NAMES[entry.primitive]
    given = ", ".join(f"{key}={int(value)}" for key, value in changed.items() if value is not None)
    return f"number({_quoted(entry.primitive)}, {given})"


def _other_null(entry: NamedValues) -> str:
    """Return how the numbers of an enum are named that has another null value than usual; else ""."""
    if entry.null is None or int(entry.null) == PRIMITIVES[entry.primitive].null:
        return ""
    return f"number({_quoted(entry.primitive)}, null={int(entry.null)})"


def _check_names(owner: str, names: list[str]) -> None:
    """Raise ValueError for two that are the same for Python."""
    found: set[str] = set()
    for one in map(_identifier, names):
        if one in found:
            raise ValueError(f"{owner} has two fields or values called {one}")
        found.add(one)


def _constant(primitive: str, text: str) -> str:
    if primitive == "char":
        return _quoted(text)
    return f'float("{float(text)}")' if primitive in ("float", "double") else repr(int(text))
