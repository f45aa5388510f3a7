"""The calls of `ordo.v1.Administration`: what `ordo cluster ... --endpoints` does, with the caller's token.

They are rare, and wait; so each has a connection of its own, on a thread, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from cluster.node import orders
from gateway.calls import Deadline, credentials_of, refuse_with
from gateway.members import remote_cluster
from gateway.settings import GatewaySettings
from runtime.errors import OrdoError, OutcomeUnknownError
from service_api import ordo_pb2 as pb
from service_api import ordo_pb2_grpc

FIND_TIMEOUT_S = 5.0
T = TypeVar("T")


class AdministrationCalls(ordo_pb2_grpc.AdministrationServicer):
    """Gives orders to the leader."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._one_at_a_time = asyncio.Lock()

    async def Status(self, request: Any, context: Any) -> Any:
        members = await self._order(context, orders.list_members, any_member=True)
        return pb.StatusResponse(
            members=[
                pb.Member(
                    member_id=one.member_id,
                    is_leader=one.is_leader,
                    role=one.role,
                    log_position=one.log_position,
                    ingress_endpoint=one.ingress,
                )
                for one in members
            ]
        )

    async def TakeSnapshot(self, request: Any, context: Any) -> Any:
        await self._order(context, orders.take_snapshot)
        return pb.TakeSnapshotResponse()

    async def Suspend(self, request: Any, context: Any) -> Any:
        await self._order(context, orders.suspend)
        return pb.SuspendResponse()

    async def Resume(self, request: Any, context: Any) -> Any:
        await self._order(context, orders.resume)
        return pb.ResumeResponse()

    async def TransferLeadership(self, request: Any, context: Any) -> Any:
        target = request.member_id if request.HasField("member_id") else None
        await self._order(context, lambda member, seconds: orders.transfer(member, target, seconds))
        return pb.TransferLeadershipResponse()

    async def _order(self, context: Any, give: Callable[[Any, float], T], any_member: bool = False) -> T:
        """Gives one order, by the caller's deadline; refuses the call when it cannot be given, or its end not seen."""
        deadline = Deadline(context, self._settings.timeout_s)
        credentials = credentials_of(context)
        try:
            async with asyncio.timeout(deadline.seconds), self._one_at_a_time:
                return await asyncio.shield(
                    asyncio.to_thread(self._give, credentials, give, deadline.seconds, any_member)
                )
        except TimeoutError:
            await refuse_with(context, OutcomeUnknownError("the order was not carried out in time, and may be yet"))
        except OrdoError as error:
            await refuse_with(context, error)

    def _give(
        self, credentials: bytes | None, give: Callable[[Any, float], T], timeout_s: float, any_member: bool
    ) -> T:
        with remote_cluster(self._settings, self._settings.credentials_for(credentials)) as cluster:
            find_s = min(FIND_TIMEOUT_S, timeout_s)
            member = cluster.any_member(find_s) if any_member else cluster.find_leader(find_s)
            return give(member, timeout_s)
