from typing import Final

MICROSECOND_NS: Final[int]
MILLISECOND_NS: Final[int]
SECOND_NS: Final[int]
