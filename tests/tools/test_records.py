"""What mypy is told of decoded messages is what the tables decode to."""

import ast
from pathlib import Path

import pytest

from ordo.runtime.sbe import ASCII, BYTES, Message
from tests.records import make_record
from tools import records, source

CAR = Message(
    "Car",
    1,
    2,
    3,
    fields=[("serial", "i64"), ("filler", "pad4"), ("index", "u8", 2)],
    groups=[("fuel_figures", [("speed", "u16")], [("usage", ASCII)])],
    data=[("code", BYTES)],
)


@pytest.mark.parametrize("module", records.RECORDS)
def test_each_record_has_the_fields_that_its_table_decodes(module: str) -> None:
    classes = {
        node.name: [field.target.id for field in node.body if isinstance(field, ast.AnnAssign)]  # type: ignore[union-attr]
        for node in ast.parse((source.ROOT / module).read_text()).body
        if isinstance(node, ast.ClassDef)
    }
    tables = [table for origin in records.RECORDS[module] for table in records.tables(origin).values()]
    assert tables
    for table in tables:
        assert classes[table.name] == list(make_record(table)._fields), table.name


ENTRY = """class CarFuelFiguresEntry(NamedTuple):
    \"\"\"The fields of a decoded CarFuelFiguresEntry.\"\"\"

    speed: int
    usage: str
"""
RECORD = """class Car(NamedTuple):
    \"\"\"The fields of a decoded Car.\"\"\"

    serial: int
    index: int  # type: ignore[assignment]
    fuel_figures: list[CarFuelFiguresEntry]
    code: bytes
"""


def test_a_module_says_the_type_of_each_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "tables", lambda module: {"CAR": CAR})
    text = records.render(("cars.py",))
    assert ENTRY in text and RECORD in text
    with pytest.raises(ValueError, match="two messages of one name: Car"):
        records.render(("cars.py", "cars.py"))


def test_modules_that_lag_and_tables_without_a_type_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cars.py").write_text("CAR: Message[records.Lorry] = 1\n")
    for module in (records, source):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(records, "RECORDS", {"records.py": ("cars.py",)})
    monkeypatch.setattr(records, "tables", lambda module: {"CAR": CAR})
    found = [str(problem) for problem in records.check()]
    assert found == [
        "records.py:1: not what the tables say; write it with `make fix`",
        "cars.py:1: CAR is declared as Message[records.Lorry], must be Message[records.Car]",
    ]
    (tmp_path / "records.py").write_text(records.render(("cars.py",)))
    (tmp_path / "cars.py").write_text("CAR: Message[records.Car] = 1\n")
    assert not records.check()
