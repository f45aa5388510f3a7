from ordo.service_api.native import NativeClusteredService
from ordo.service_api.snapshot import SnapshotWriter

class NativeEcho(NativeClusteredService):
    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...
