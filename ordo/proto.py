"""The gateway's gRPC contracts: messages (`ordo_pb2`) and stubs (`ordo_pb2_grpc`), generated from `ordo.proto`.

Needs grpcio: `pip install 'ordo-sequencer[gateway]'`.
"""

from ordo.service_api import ordo_pb2, ordo_pb2_grpc

__all__ = ["ordo_pb2", "ordo_pb2_grpc"]
