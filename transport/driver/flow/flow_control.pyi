class FlowControl:
    strategy: int
    receiver_timeout_ns: int
    group_tag: int
    group_min_size: int
    retransmit_window_multiple: int
    def __init__(
        self,
        strategy: str,
        *,
        receiver_timeout_ns: int,
        group_tag: int = -1,
        group_min_size: int = 0,
        retransmit_window_multiple: int = 4,
    ) -> None: ...
    def status(
        self,
        receiver_id: int,
        position: int,
        window: int,
        *,
        limit: int,
        now_ns: int,
        leaving: bool = False,
        tag: int | None = None,
    ) -> int: ...
    def idle(self, limit: int, now_ns: int) -> int: ...
    def send_setup(self, limit: int, now_ns: int, tag: int | None = None) -> None: ...
    def error(self, receiver_id: int) -> None: ...
    @property
    def tracks_receivers(self) -> bool: ...
    @property
    def receiver_count(self) -> int: ...
    @property
    def satisfied(self) -> bool: ...
