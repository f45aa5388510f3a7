from collections.abc import Sequence

class Names:
    def __init__(self, of_class: type, is_character: bool, is_flags: bool) -> None: ...
    @property
    def of_class(self) -> type: ...

class BlockCodec:
    def __init__(
        self,
        of_class: type,
        fields: Sequence[object],
        groups: tuple[Group, ...],
        data: tuple[VariableData, ...],
        block_length: int,
        swaps: bool,
        *_: object,
    ) -> None: ...
    @property
    def of_class(self) -> type: ...
    @property
    def block_length(self) -> int: ...

class Group:
    def __init__(
        self,
        name: str,
        owner: type,
        codec: BlockCodec,
        since: int,
        dimension: tuple[int, int, int, int, int],
        swaps: bool,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def codec(self) -> BlockCodec: ...
    @property
    def since(self) -> int: ...
    @property
    def dimension_length(self) -> int: ...

class VariableData:
    def __init__(self, name: str, owner: type, is_text: bool, since: int, length_size: int, swaps: bool) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def since(self) -> int: ...
    @property
    def is_text(self) -> bool: ...
