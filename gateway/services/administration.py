"""The calls of `ordo.v1.Administration`: what `ordo cluster ... --endpoints` does, with the caller's token."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ordo.cluster.admin import orders, upgrading
from ordo.cluster.admin.remote import RemoteCluster, RemoteMember, check_permission, leader_of, look_status
from ordo.cluster.client.operator import MemberLook
from ordo.cluster.wire.app_version import parse_version
from ordo.cluster.wire.members import ENDPOINT_NAMES
from ordo.cluster.wire.ordo_codecs import MembershipChange
from ordo.gateway.callers.call_context import CallContext
from ordo.gateway.services.operations import Operations
from ordo.runtime.errors import OrdoError
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc

FIND_TIMEOUT_S = 5.0
T = TypeVar("T")


class AdministrationCalls(ordo_pb2_grpc.AdministrationServicer):
    """Gives orders to the leader, and asks members."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def Status(self, request: pb.StatusRequest, context: CallContext) -> pb.StatusResponse:
        members = await self._ask(context, orders.list_members)
        return pb.StatusResponse(
            members=[
                pb.Member(
                    member_id=one.member_id,
                    is_leader=one.is_leader,
                    role=one.role,
                    log_position=one.log_position,
                    **{f"{name}_endpoint": getattr(one, name) for name in ENDPOINT_NAMES},
                )
                for one in members
            ]
        )

    async def LookAtMembers(self, request: pb.LookAtMembersRequest, context: CallContext) -> pb.LookAtMembersResponse:
        return await self._operations.on_cluster(context, lambda cluster, _: _look(cluster))

    async def DescribeMember(
        self, request: pb.DescribeMemberRequest, context: CallContext
    ) -> pb.DescribeMemberResponse:
        member_id = request.member_id
        found = await self._operations.on_cluster(context, lambda cluster, _: cluster.find_details(member_id))
        return pb.DescribeMemberResponse(
            log_start_position=found.log_start_position,
            state_hash_position=found.state_hash_position,
            terms=[pb.Term(**one._asdict()) for one in found.terms],
            snapshots=[pb.Snapshot(member_id=member_id, **one._asdict()) for one in found.snapshots],
            sessions=[pb.Session(**one._asdict()) for one in found.sessions],
            errors=[pb.MemberError(**one._asdict()) for one in found.errors],
        )

    async def ListSnapshots(self, request: pb.ListSnapshotsRequest, context: CallContext) -> pb.ListSnapshotsResponse:
        found = await self._operations.on_cluster(context, lambda cluster, _: cluster.list_snapshots())
        return pb.ListSnapshotsResponse(snapshots=[pb.Snapshot(member_id=each, **one._asdict()) for each, one in found])

    async def TakeSnapshot(self, request: pb.TakeSnapshotRequest, context: CallContext) -> pb.TakeSnapshotResponse:
        await self._order(context, orders.take_snapshot)
        return pb.TakeSnapshotResponse()

    async def Suspend(self, request: pb.SuspendRequest, context: CallContext) -> pb.SuspendResponse:
        await self._order(context, orders.suspend)
        return pb.SuspendResponse()

    async def Resume(self, request: pb.ResumeRequest, context: CallContext) -> pb.ResumeResponse:
        await self._order(context, orders.resume)
        return pb.ResumeResponse()

    async def TransferLeadership(
        self, request: pb.TransferLeadershipRequest, context: CallContext
    ) -> pb.TransferLeadershipResponse:
        target = request.member_id if request.HasField("member_id") else None
        await self._order(context, lambda leader, seconds: orders.transfer(leader, target, seconds))
        return pb.TransferLeadershipResponse()

    async def AddLearner(self, request: pb.AddLearnerRequest, context: CallContext) -> pb.AddLearnerResponse:
        text = f"{request.member_id}={request.endpoints}"
        position = await self._order(context, lambda leader, seconds: orders.add_learner(leader, text, seconds))
        return pb.AddLearnerResponse(log_position=position)

    async def Promote(self, request: pb.PromoteRequest, context: CallContext) -> pb.PromoteResponse:
        position = await self._change(context, MembershipChange.PROMOTE, request.member_id)
        return pb.PromoteResponse(log_position=position)

    async def Demote(self, request: pb.DemoteRequest, context: CallContext) -> pb.DemoteResponse:
        position = await self._change(context, MembershipChange.DEMOTE, request.member_id)
        return pb.DemoteResponse(log_position=position)

    async def Remove(self, request: pb.RemoveRequest, context: CallContext) -> pb.RemoveResponse:
        position = await self._change(context, MembershipChange.REMOVE, request.member_id)
        return pb.RemoveResponse(log_position=position)

    async def SkipRecord(self, request: pb.SkipRecordRequest, context: CallContext) -> pb.SkipRecordResponse:
        await self._order(context, lambda leader, seconds: orders.skip(leader, request.log_position, seconds))
        return pb.SkipRecordResponse()

    async def ListSkipped(self, request: pb.ListSkippedRequest, context: CallContext) -> pb.ListSkippedResponse:
        found, asked_for = await self._ask(context, lambda member, _: member.notes.list_skipped())
        records = [
            pb.SkippedRecord(
                log_position=one.log_position,
                skip_position=one.skip_position,
                text=one.text.decode("utf-8", "replace"),
            )
            for one in found
        ]
        return pb.ListSkippedResponse(records=records, asked_for=asked_for)

    async def Upgrade(self, request: pb.UpgradeRequest, context: CallContext) -> pb.UpgradeResponse:
        service_id = request.service_id if request.HasField("service_id") else None

        def upgrade(leader: RemoteMember, timeout_s: float) -> int:
            return upgrading.upgrade(leader, parse_version(request.version), service_id, timeout_s)

        return pb.UpgradeResponse(log_position=await self._order(context, upgrade))

    async def ListVersions(self, request: pb.ListVersionsRequest, context: CallContext) -> pb.ListVersionsResponse:
        found = await self._ask(context, upgrading.cluster_versions)
        services = [pb.VersionInForce(version=one.version, since_position=one.since_position) for one in found.services]
        return pb.ListVersionsResponse(
            in_force=services[0].version,
            since_position=services[0].since_position,
            protocol_level=found.protocol_level,
            level_since_position=found.level_since_position,
            members=[_member_versions(one) for one in found.members],
            services=services,
        )

    async def ListEvidence(self, request: pb.ListEvidenceRequest, context: CallContext) -> pb.ListEvidenceResponse:
        found = await self._operations.on_cluster(context, lambda cluster, _: cluster.list_evidence())
        return pb.ListEvidenceResponse(
            evidence=[
                pb.Evidence(
                    member_id=member_id,
                    log_position=one.log_position,
                    found_position=one.found_position,
                    since_position=one.since_position,
                    recording_ids=one.recording_ids,
                    length_bytes=one.length_bytes,
                    own_digest=one.own_digest,
                    their_digest=one.their_digest,
                )
                for member_id, one in found
            ]
        )

    async def ShutDown(self, request: pb.ShutDownRequest, context: CallContext) -> pb.ShutDownResponse:
        def shut_down(leader: RemoteMember, timeout_s: float) -> None:
            orders.shut_down(leader, with_snapshot=not request.without_snapshot, timeout_s=timeout_s)

        await self._order(context, shut_down)
        return pb.ShutDownResponse()

    async def _change(self, context: CallContext, change: MembershipChange, member_id: int) -> int:
        return await self._order(
            context,
            lambda leader, seconds: orders.change_membership(leader, change, member_id, timeout_s=seconds),
        )

    async def _order(self, context: CallContext, give: Callable[[RemoteMember, float], T]) -> T:
        """Give an order to the leader."""

        def find_and_give(cluster: RemoteCluster, timeout_s: float) -> T:
            return give(cluster.find_leader(min(FIND_TIMEOUT_S, timeout_s)), timeout_s)

        return await self._operations.on_cluster(context, find_and_give)

    async def _ask(self, context: CallContext, question: Callable[[RemoteMember, float], T]) -> T:
        """Ask the leader, or another member if there is no leader."""

        def find_and_ask(cluster: RemoteCluster, timeout_s: float) -> T:
            return question(cluster.any_member(min(FIND_TIMEOUT_S, timeout_s)), timeout_s)

        return await self._operations.on_cluster(context, find_and_ask)


def _look(cluster: RemoteCluster) -> pb.LookAtMembersResponse:
    found = cluster.look()
    check_permission(found)
    leader = leader_of(found)
    response = pb.LookAtMembersResponse(members=[_state(endpoint, look) for endpoint, look in found.items()])
    if leader is not None:
        look = found[leader]
        assert isinstance(look, MemberLook)
        response.leader_member_id = look.get("member_id")
    return response


def _member_versions(one: upgrading.MemberVersions) -> pb.MemberVersions:
    return pb.MemberVersions(
        member_id=one.member_id,
        role=one.role,
        versions=one.common.versions,
        lacks=one.common.lack,
        lack_position=one.common.lack_position,
        protocol_level=one.protocol_level,
        services=[
            pb.ServiceVersions(versions=own.versions, lacks=own.lack, lack_position=own.lack_position)
            for own in one.services
        ],
    )


def _state(endpoint: str, look: MemberLook | OrdoError) -> pb.MemberState:
    if not isinstance(look, MemberLook):
        return pb.MemberState(ingress_endpoint=endpoint, trouble=look.message)
    status = look_status(look)
    return pb.MemberState(
        ingress_endpoint=endpoint,
        member_id=status.member_id,
        has_quorum=status.has_quorum,
        role=status.role,
        state=status.state,
        election=status.election,
        leadership_term_id=status.leadership_term_id,
        commit_position=status.commit_position,
        service_position=status.service_position,
        election_count=status.elections,
        snapshot_count=status.snapshots,
        session_count=status.sessions,
        error_count=status.errors,
        skipped_count=status.skipped_records,
        lost=status.lost,
        no_room=status.no_room,
        damaged_count=status.damaged,
        ordo_version=look.version,
    )
