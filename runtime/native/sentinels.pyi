from typing import Final

NULL_POSITION: Final[int]
NULL_VALUE: Final[int]
