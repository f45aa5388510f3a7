from ordo.runtime.native.counters import Counter

class ReceiveWindow:
    length_max: int
    length: int
    is_cubic: bool
    measures_rtt: bool
    rtt_ns: int
    def __init__(
        self,
        length_max: int,
        mtu: int,
        *,
        is_cubic: bool = False,
        is_tcp_friendly: bool = False,
        measures_rtt: bool = False,
        initial_rtt_ns: int = 100_000,
        now_ns: int = 0,
    ) -> None: ...
    def show(self, rtt: Counter, length: Counter) -> None: ...
    def turn(self, has_loss: bool, has_advanced: bool, now_ns: int) -> bool: ...
    def probe(self, now_ns: int) -> bool: ...
    def echo(self, echo_ns: int, delay_ns: int, now_ns: int) -> None: ...
