"""The generated modules are those of the contract."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from deploy.launcher import ROOT
from service_api import ordo_pb2, ordo_pb2_grpc


def test_the_generated_modules_are_current(tmp_path: Path) -> None:
    """To make them anew: python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. FILE"""
    out = tmp_path / "ordo.bin"
    assert protoc.main(["", f"-I{ROOT}", f"--descriptor_set_out={out}", f"{ROOT}/service_api/ordo.proto"]) == 0
    (wanted,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    found = descriptor_pb2.FileDescriptorProto()
    ordo_pb2.DESCRIPTOR.CopyToProto(found)
    for message in (*wanted.message_type, *found.message_type):
        for field in message.field:
            field.ClearField("json_name")
    assert found == wanted
    for service in wanted.service:
        servicer = getattr(ordo_pb2_grpc, f"{service.name}Servicer")
        assert {method.name for method in service.method} <= set(vars(servicer))
