from service_api.native import NativeClusteredService
from service_api.snapshot import SnapshotWriter

class NativeEcho(NativeClusteredService):
    def on_take_snapshot(self, writer: SnapshotWriter) -> None: ...
