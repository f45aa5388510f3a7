"""Payloads into columns: the SBE car example with its known values, protobuf, struct."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2
from pyspark.sql import SparkSession

from ordo.cluster.wire.ordo_codecs import OUTPUT, REQUEST
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.payloads import SbeDecoder, StructDecoder, decode_batches, decoded_schema, parse_decoder
from ordo.pipeline.decoding.sbe_schema import SbeSchema
from ordo.pipeline.generate import RecordingBuilder, session_message
from ordo.pipeline.jobs.decode import decode
from tests.conftest import SHARED_DATA

CARS = SHARED_DATA / "sbe-car"
BASELINE: dict[str, Any] = {
    "serialNumber": Decimal(1234), "modelYear": 2013, "available": "T", "code": "A", "someNumbers": [1, 2, 3, 4],
    "vehicleCode": "abcdef", "extras": ["sportsPack", "cruiseControl"], "discountedModel": "C",
    "engine": {"capacity": 2000, "numCylinders": 4, "maxRpm": 9000, "manufacturerCode": "123", "fuel": "Petrol",
               "efficiency": 35, "boosterEnabled": "T", "booster": {"BoostType": "NITROUS", "horsePower": 200}},
    "fuelFigures": [(30, 35.9, "Urban Cycle"), (55, 49.0, "Combined Cycle"), (75, 40.0, "Highway Cycle")],
    "performanceFigures": [(95, [(30, 4.0), (60, 7.5), (100, 12.2)]), (99, [(30, 3.8), (60, 7.1), (100, 11.8)])],
    "manufacturer": "Honda", "model": "Civic VTi", "activationCode": "abcdef",
}  # fmt: skip


def plain(car: dict[str, Any]) -> dict[str, Any]:
    """Groups as tuples, floats as they were written."""
    fuel = [(row["speed"], round(row["mpg"], 4), row["usageDescription"]) for row in car["fuelFigures"]]
    performance = [
        (row["octaneRating"], [(part["mph"], round(part["seconds"], 4)) for part in row["acceleration"]])
        for row in car["performanceFigures"]
    ]
    return {**car, "fuelFigures": fuel, "performanceFigures": performance}


@pytest.mark.shared_data
def test_the_baseline_car_has_its_known_values() -> None:
    schema = SbeSchema.load(str(CARS / "example-schema.xml"))
    name, version, car = schema.decode((CARS / "car_example_baseline_data.sbe").read_bytes())
    assert (name, version) == ("Car", 0)
    assert plain(car) == BASELINE


@pytest.mark.shared_data
def test_a_newer_schema_reads_an_older_message() -> None:
    schema = SbeSchema.load(str(CARS / "example-extension-schema.xml"))
    name, version, car = schema.decode((CARS / "car_example_extension_data.sbe").read_bytes())
    assert (name, version, car.pop("uuid"), car.pop("cupHolderCount")) == ("Car", 0, None, None)
    assert plain(car) == {**BASELINE, "someNumbers": [0, 1, 2, 3]}


@pytest.mark.shared_data
def test_an_older_schema_passes_over_what_is_newer() -> None:
    data = (CARS / "car_example_baseline_data.sbe").read_bytes()
    newer = b"\x2f\x00" + data[2:6] + b"\x07\x00" + data[8 : 8 + 45] + b"\xaa\xbb" + data[8 + 45 :]
    _, version, car = SbeSchema.load(str(CARS / "example-schema.xml")).decode(newer)
    assert version == 7 and plain(car) == BASELINE


@pytest.mark.shared_data
def test_every_cut_of_a_message_is_a_value_error() -> None:
    schema, data = (
        SbeSchema.load(str(CARS / "example-schema.xml")),
        (CARS / "car_example_baseline_data.sbe").read_bytes(),
    )
    for length in range(len(data)):
        with pytest.raises(ValueError):
            schema.decode(data[:length])


@pytest.mark.spark
@pytest.mark.shared_data
def test_a_log_of_cars_and_of_what_no_schema_knows(spark: SparkSession, tmp_path: Path) -> None:
    data = (CARS / "car_example_baseline_data.sbe").read_bytes()
    unknown = data[:2] + b"\x63\x00" + data[4:]
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        for payload in (data, unknown, b"no", data):
            builder.append(session_message(0, 1, 5, payload))
    log = spark.read.format("ordo").option("columns", "position,payload").load(builder.directory)
    rows = decode(log, SbeDecoder(str(CARS / "example-schema.xml")), repeats=True).orderBy("position").collect()
    assert [row.message for row in rows] == ["Car", None, None, "Car"]
    assert [row.problem for row in rows] == [
        None,
        "unknown template id 99 of version 0",
        "2 bytes are no message header",
        None,
    ]
    assert bytes(rows[1].payload) == unknown and rows[1].Car is None
    assert plain(rows[3].Car.asDict(recursive=True)) == BASELINE


def test_only_what_applications_sent_is_decoded() -> None:
    """Their bytes come after the block of a request, which is longer for an application's output; others have none."""
    number, decoder = (7).to_bytes(4, "little"), StructDecoder("<I", ("number",))
    kinds = ["message", "request", "request", "new_term", "data", "request"]
    request, output = REQUEST.encode() + number, OUTPUT.encode() + number
    payloads = [number, request, output, bytes(96), number, b"cut"]
    batch = pa.RecordBatch.from_pydict({"kind": kinds, "payload": pa.array(payloads, pa.binary())})
    schema = decoded_schema(batch.schema, decoder)
    (decoded,) = decode_batches(decoder, "payload", schema, iter([batch]))
    found = [row["record"] and row["record"]["number"] for row in decoded.to_pylist()]
    assert found == [7, 7, 7, None, 7, None] and decoded["problem"].null_count == 6


@pytest.mark.spark
def test_struct(spark: SparkSession, tmp_path: Path) -> None:
    decoder = parse_decoder("struct:<BxHQ2s:kind,flags,number,tail")
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(session_message(0, 1, 5, b"\x07\x00\x02\x01" + b"\xff" * 8 + b"ab" + b"behind"))
        builder.append(session_message(0, 1, 5, b"short"))
    log = spark.read.format("ordo").option("columns", "position,payload").load(builder.directory)
    first, second = decode(log, decoder, repeats=True).orderBy("position").collect()
    assert first.record.asDict() == {"kind": 7, "flags": 258, "number": Decimal(2**64 - 1), "tail": b"ab"}
    assert (second.record, second.problem) == (None, "5 bytes, the format has 14")


@pytest.mark.spark
def test_protobuf(spark: SparkSession, tmp_path: Path) -> None:
    """Uses messages that protobuf itself brings: nested, repeated, and recursive ones."""
    files = descriptor_pb2.FileDescriptorSet()
    for module in (descriptor_pb2, timestamp_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    path = tmp_path / "set.pb"
    path.write_bytes(files.SerializeToString())
    message = descriptor_pb2.EnumDescriptorProto(name="Colour")
    message.value.add(name="RED", number=3)
    with RecordingBuilder(str(tmp_path / "archive")) as builder:
        builder.append(session_message(0, 1, 5, message.SerializeToString()))
        builder.append(session_message(0, 1, 5, b"\xff\xff\xff"))
    log = spark.read.format("ordo").option("columns", "position,payload").load(builder.directory)
    decoder = parse_decoder(f"protobuf:{path}:google.protobuf.EnumDescriptorProto")
    first, second = decode(log, decoder, repeats=True).orderBy("position").collect()
    assert first.EnumDescriptorProto.name == "Colour"
    assert [(value.name, value.number) for value in first.EnumDescriptorProto.value] == [("RED", 3)]
    assert second.problem.startswith("not a google.protobuf.EnumDescriptorProto")


def test_a_file_that_is_no_descriptor_set_is_named(tmp_path: Path) -> None:
    (tmp_path / "set.pb").write_bytes(b"\xff\xff\xffgarbage")
    with pytest.raises(PipelineError, match="give a descriptor set with imports"):
        parse_decoder(f"protobuf:{tmp_path / 'set.pb'}:my.Message").columns()


@pytest.mark.parametrize("text", ["", "sbe", "protobuf:x", "struct:<I", "json:x"])
def test_a_wrong_decoder_is_named(text: str) -> None:
    with pytest.raises(PipelineError, match="write log, sbe:"):
        parse_decoder(text)


def test_wrong_schemas_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read as an SBE schema"):
        SbeDecoder(str(tmp_path / "nothing.xml")).columns()
    with pytest.raises(PipelineError, match="2 values for 1 names"):
        StructDecoder("<II", ("a",)).columns()
