"""Sequential objects to check histories against."""

from typing import Any

from tests.linearizability.checker import UNKNOWN, Operation

FACTOR, MODULUS = 1_000_003, 1 << 64


def append(before: int, value: int) -> int:
    """A register to which a value is appended: what it holds is the hash of a list, which tells its order."""
    return (before * FACTOR + value) % MODULUS


class Register:
    """One value, at first None: `read` -> value, `write` value, `cas` (expected, new) -> whether it matched, `append`
    value -> what it holds now."""

    def initial(self) -> Any:
        return None

    def step(self, state: Any, operation: Operation) -> tuple[bool, Any]:
        match operation.kind:
            case "read":
                return operation.output is UNKNOWN or operation.output == state, state
            case "write":
                return True, operation.argument
            case "cas":
                expected, new = operation.argument
                matches = expected == state
                return operation.output is UNKNOWN or operation.output == matches, new if matches else state
            case "append":
                after = append(state or 0, operation.argument)
                return operation.output is UNKNOWN or operation.output == after, after
        raise ValueError(f"kind={operation.kind!r}: a register knows read, write, cas and append")


class ZeroRegister(Register):
    """A register that holds 0 before its first write."""

    def initial(self) -> Any:
        return 0


class Text:
    """One string, at first empty: `get` -> value, `put` value, `append` value."""

    def initial(self) -> str:
        return ""

    def step(self, state: str, operation: Operation) -> tuple[bool, str]:
        match operation.kind:
            case "get":
                return operation.output is UNKNOWN or operation.output == state, state
            case "put":
                return True, operation.argument
            case "append":
                return True, state + operation.argument
        raise ValueError(f"kind={operation.kind!r}: a text knows get, put and append")
