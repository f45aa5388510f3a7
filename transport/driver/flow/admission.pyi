class Admission:
    images: int
    mapped_bytes: int
    def __init__(
        self,
        *,
        secret: int,
        term_length_max: int,
        images_max: int,
        images_per_source_max: int,
        unconfirmed_per_source_max: int,
        bytes_max: int,
        bytes_per_source_max: int,
        rate_per_source: int,
        burst_per_source: int,
    ) -> None: ...
    def ask(self, source: bytes, term_length: int, now_ns: int) -> int: ...
    def release(self, source: bytes, term_length: int, is_confirmed: bool) -> None: ...
