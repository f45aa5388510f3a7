"""Objects that a `with` statement closes at its end."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A context manager that calls `close` at its end, also after an exception."""

    def close(self) -> None:
        """Close properly and free all resources. Idempotent."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
