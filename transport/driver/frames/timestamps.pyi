from ordo.runtime.native.clock import Clock

RESERVED_VALUE: int

class FrameStamper:
    offset: int
    def __init__(self, offset: int, clock: Clock) -> None: ...
