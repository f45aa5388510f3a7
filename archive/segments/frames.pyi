"""Native but for the words of the faults: see frames.pxd."""

FAULT_REASONS: dict[int, str]

def reseal(frames: bytearray, stream_id: int) -> int: ...
