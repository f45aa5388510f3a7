"""Columns of every type that messages can have, by the schema that the log has; and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import ordo
from ordo.follow.log_schemas import schemas_of_folder
from ordo.gateway.watching.log_messages import describe
from ordo.messages import encode
from ordo.pipeline.decoding.log_decoder import LogDecoder
from ordo.pipeline.export.lake import LakeSettings, export_delta
from ordo.service_api.messages.plain import values_of
from tests.pipeline.typed_logs import event, write_log
from tests.service_api.messages.random_schemas import draw


def plain(value: Any) -> Any:
    """A value without names: columns have others where two differ in the case of their letters only."""
    if isinstance(value, dict):
        return [plain(one) for one in value.values()]
    if isinstance(value, list):
        return [plain(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value


def check_rows(rows: list[dict[str, Any]], values: list[Any]) -> None:
    assert [row["problem"] for row in rows] == [None] * len(values)
    for row, value in zip(rows, values, strict=True):
        assert row["message"] == type(value).__name__
        if type(value).__slots__:
            assert plain(row[row["message"]]) == plain(values_of(value))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_each_value_is_as_it_was_written(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    schema, values = draw(seed)
    folder = write_log(tmp_path_factory.mktemp("log"), [event(schema), *values])
    check_rows(ordo.read(folder, decoder="log", kinds="message").to_arrow().to_pylist(), values)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_each_value_has_a_json(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    schema, values = draw(seed)
    known = schemas_of_folder(Path(write_log(tmp_path_factory.mktemp("log"), [event(schema), *values])))
    for value in values:
        said: Any = describe(known, encode(value), known.searched_to)
        found = json.loads(json.dumps(said["message"], allow_nan=False))
        assert found["name"] == type(value).__name__ and list(found["values"]) == list(values_of(value))


@pytest.mark.spark
@pytest.mark.parametrize("seed", [1, 41])
def test_spark_has_the_same_values(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    schema, values = draw(seed)
    folder = write_log(tmp_path, [event(schema), *values])
    frame = spark.read.format("ordo").options(decoder="log", kinds="message").load(folder).orderBy("position")
    check_rows([row.asDict(recursive=True) for row in frame.collect()], values)


@pytest.mark.parametrize("seed", [1, 2, 3, 41])
def test_a_delta_table_has_the_same_values(tmp_path: Path, seed: int) -> None:
    deltalake = pytest.importorskip(
        "deltalake", reason="deltalake is not installed: pip install 'ordo-sequencer[delta]'"
    )
    schema, values = draw(seed)
    folder = write_log(tmp_path, [event(schema), *values])
    export_delta([folder], str(tmp_path / "table"), LakeSettings(decoder=LogDecoder()))
    rows = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table().sort_by("position").to_pylist()
    check_rows([row for row in rows if row["kind"] == "message"], values)
