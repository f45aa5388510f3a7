class NativeVector:
    count: int
    capacity: int
    count_max: int
    item_bytes: int
    def __init__(self, item_bytes: int = 8, count_max: int | None = None) -> None: ...
