"""The calls of `ordo.v1.Consumers`: what `ordo consumers`, `ordo apps` and `ordo app` do, with the caller's token."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any, Literal

from ordo.cluster.wire.app_version import format_version, parse_version
from ordo.gateway.callers.call_context import CallContext
from ordo.gateway.services.consume_streams import ConsumeStreams
from ordo.gateway.services.operations import Operations
from ordo.service_api import ordo_pb2 as pb
from ordo.service_api import ordo_pb2_grpc


class ConsumerCalls(ordo_pb2_grpc.ConsumersServicer):
    """Each call has a session of the cluster, for as long as it takes."""

    def __init__(self, operations: Operations, streams: ConsumeStreams) -> None:
        self._operations = operations
        self._streams = streams

    async def Consume(self, request_iterator: AsyncIterable[pb.ConsumeRequest], context: CallContext) -> None:
        await self._streams.serve(request_iterator, context)

    async def ListConsumers(self, request: pb.ListConsumersRequest, context: CallContext) -> pb.ListConsumersResponse:
        found = await self._operations.on_consumers(context, lambda orders: orders.list_all())
        return pb.ListConsumersResponse(consumers=[_consumer(one) for one in found])

    async def DescribeConsumer(
        self, request: pb.DescribeConsumerRequest, context: CallContext
    ) -> pb.DescribeConsumerResponse:
        found = await self._operations.on_consumers(context, lambda orders: orders.describe(request.name))
        return pb.DescribeConsumerResponse(
            consumer=_consumer(found),
            sessions=[
                pb.ConsumerSession(session_id=one["session"], is_active=one["active"]) for one in found["sessions"]
            ],
            dead_letters=[
                pb.DeadLetter(position=one["position"], try_count=one["tries"]) for one in found.get("dead_letters", ())
            ],
        )

    async def PauseConsumer(self, request: pb.PauseConsumerRequest, context: CallContext) -> pb.PauseConsumerResponse:
        await self._operations.on_consumers(context, lambda orders: orders.pause(request.name))
        return pb.PauseConsumerResponse()

    async def ResumeConsumer(
        self, request: pb.ResumeConsumerRequest, context: CallContext
    ) -> pb.ResumeConsumerResponse:
        await self._operations.on_consumers(context, lambda orders: orders.resume(request.name))
        return pb.ResumeConsumerResponse()

    async def SeekConsumer(self, request: pb.SeekConsumerRequest, context: CallContext) -> pb.SeekConsumerResponse:
        to: int | Literal["live"] = request.position if request.HasField("position") else "live"
        position = await self._operations.on_consumers(context, lambda orders: orders.seek(request.name, to))
        return pb.SeekConsumerResponse(position=position)

    async def RemoveConsumer(
        self, request: pb.RemoveConsumerRequest, context: CallContext
    ) -> pb.RemoveConsumerResponse:
        await self._operations.on_consumers(context, lambda orders: orders.remove(request.name))
        return pb.RemoveConsumerResponse()

    async def ListInstances(self, request: pb.ListInstancesRequest, context: CallContext) -> pb.ListInstancesResponse:
        found = await self._operations.on_consumers(context, lambda orders: orders.list_instances())
        return pb.ListInstancesResponse(instances=[_instance(one) for one in found])

    async def ListDifferences(
        self, request: pb.ListDifferencesRequest, context: CallContext
    ) -> pb.ListDifferencesResponse:
        found = await self._operations.on_consumers(context, lambda orders: orders.list_differences(request.group))
        return pb.ListDifferencesResponse(differences=[_difference(one) for one in found])

    async def UpgradeGroup(self, request: pb.UpgradeGroupRequest, context: CallContext) -> pb.UpgradeGroupResponse:
        position = await self._operations.on_consumers(
            context, lambda orders: orders.upgrade_group(request.group, parse_version(request.version))
        )
        return pb.UpgradeGroupResponse(log_position=position)


def _consumer(row: dict[str, Any]) -> pb.Consumer:
    return pb.Consumer(
        name=row["name"],
        mode=row["mode"],
        position=row["position"],
        log_position=row["log_position"],
        lag_bytes=row["lag"],
        is_paused=row["paused"],
        member_count=row["members"],
        in_flight_count=row.get("in_flight", 0),
        waiting_count=row.get("waiting", 0),
        dead_count=row.get("dead", 0),
    )


def _instance(row: dict[str, Any]) -> pb.Instance:
    return pb.Instance(
        group=row["group"],
        name=row["instance"],
        session_id=row["session"],
        is_active=row["active"],
        is_canary=row["canary"],
        version=row["version"],
        newest_version=row["newest_version"],
        position=row["position"],
        log_position=row["log_position"],
        lag_bytes=row["lag"],
        outputs_made=row["outputs_made"],
        outputs_executed=row["outputs_executed"],
        reported_ms=row["reported_ms"],
        outputs_refused=row.get("outputs_refused", 0),
        is_refused_exact=row.get("refused_exact", False),
    )


def _difference(row: dict[str, Any]) -> pb.Difference:
    return pb.Difference(
        instance=row["instance"],
        version=format_version(row["version"]),
        position=row["position"],
        index=row["index"],
        difference=row["difference"],
        written=row["written"],
        canary=row["canary"],
        written_length=row["written_length"],
        canary_length=row["canary_length"],
        log_position=row["log_position"],
    )
