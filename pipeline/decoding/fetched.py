"""Where a task of a read keeps what it fetches from elsewhere."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ordo.pipeline.decoding.errors import PipelineError


@contextmanager
def fetched_file() -> Iterator[BinaryIO]:
    """Give a file without a name, which is gone when it is closed. Raises PipelineError where there is no room."""
    try:
        with tempfile.TemporaryFile() as file:
            yield file
    except OSError as error:
        raise PipelineError(
            f"{tempfile.gettempdir()}: {error.strerror}; a task of a read keeps what it fetches there, at most a "
            f"segment: free space, or choose another folder with $TMPDIR"
        ) from error
