from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ordo.pipeline.decoding.cursor import MessageCursor

BLOCK_DTYPE: np.dtype[Any]

def session_bloom(sessions: Iterable[int]) -> int: ...
def scan_blocks(cursor: MessageCursor, is_log: bool, block_bytes: int) -> npt.NDArray[Any]: ...
def walk(cursor: MessageCursor, messages_max: int) -> int: ...
