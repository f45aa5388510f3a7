from collections.abc import Callable

class RecordingWriter:
    term_length_bytes: int
    position: int
    def __init__(
        self,
        sink: Callable[[int, memoryview], object],
        term_length_bytes: int,
        initial_term_id: int = 0,
        stream_id: int = 100,
        session_id: int = 1,
        mtu: int = 1408,
        checksum: bool = True,
        position: int = 0,
    ) -> None: ...
    def append(self, message: bytes | bytearray | memoryview) -> int: ...
    def end_term(self) -> None: ...
    def append_padding(self, length_bytes: int) -> None: ...
    def flush(self) -> None: ...
    def append_messages(
        self,
        count: int,
        leadership_term: int,
        first_session: int,
        session_count: int,
        first_time: int,
        time_step_num: int,
        time_step_den: int,
        payload_min: int,
        payload_max: int,
        seed: int,
    ) -> int: ...
