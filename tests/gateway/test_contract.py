"""The generated modules are those of the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from ordo.cluster.admin.member_details import HeldError, HeldSession, HeldSnapshot, HeldTerm
from ordo.deploy.launcher import ROOT
from ordo.service_api import ordo_pb2, ordo_pb2_grpc
from tests.cli.test_every_command import HERE_ONLY, all_commands

CALLS = {
    "cluster status": "LookAtMembers",
    "cluster members": "Status",
    "cluster list": "Status",
    "cluster leader": "Status",
    "cluster wait": "LookAtMembers",
    "cluster add-learner": "AddLearner",
    "cluster promote": "Promote",
    "cluster demote": "Demote",
    "cluster remove": "Remove",
    "cluster snapshot": "TakeSnapshot",
    "cluster suspend": "Suspend",
    "cluster resume": "Resume",
    "cluster transfer": "TransferLeadership",
    "cluster skip": "SkipRecord",
    "cluster skipped": "ListSkipped",
    "cluster upgrade": "Upgrade",
    "cluster versions": "ListVersions",
    "cluster evidence": "ListEvidence",
    "cluster snapshots": "ListSnapshots",
    "cluster shutdown": "ShutDown",
    "consumers list": "ListConsumers",
    "consumers describe": "DescribeConsumer",
    "consumers pause": "PauseConsumer",
    "consumers resume": "ResumeConsumer",
    "consumers seek": "SeekConsumer",
    "consumers remove": "RemoveConsumer",
    "apps": "ListInstances",
    "app diff": "ListDifferences",
    "app upgrade": "UpgradeGroup",
    "archive list": "ListRecordings",
    "archive describe": "ListRecordings",
    "archive verify": "VerifyRecordings",
    "archive dump": "ReadRecording",
}
NO_CALL = {
    "app run": "is an instance of an application",
    "archive migrate": "is refused by the archives of members",
}
NO_COMMAND = {"DescribeMember", "Consume"}
"""What `ordo top` and the console show, and what programs do."""


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


@pytest.mark.parametrize(
    ("message", "held", "more"),
    [
        (ordo_pb2.Term, HeldTerm, set()),
        (ordo_pb2.Snapshot, HeldSnapshot, {"member_id"}),
        (ordo_pb2.Session, HeldSession, set()),
        (ordo_pb2.MemberError, HeldError, set()),
    ],
)
def test_what_a_member_tells_has_its_fields(message: Any, held: type[Any], more: set[str]) -> None:
    assert {field.name for field in message.DESCRIPTOR.fields} == set(held._fields) | more


def test_every_command_for_another_machine_has_its_call() -> None:
    assert set(all_commands()) - set(HERE_ONLY) - set(NO_CALL) == set(CALLS)
    services = [ordo_pb2.DESCRIPTOR.services_by_name[name] for name in ("Administration", "Consumers", "Archives")]
    made = {method.name for service in services for method in service.methods}
    assert made == set(CALLS.values()) | NO_COMMAND
    page = (ROOT / "docs" / "GATEWAY.md").read_text()
    assert {name for name in made if f"`{name}`" not in page} == set()
