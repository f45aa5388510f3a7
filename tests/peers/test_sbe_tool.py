"""The pipeline's SBE decoder beside SBE's own Java tool: both read the same values from the same bytes."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordo.pipeline.decoding.sbe_schema import SbeSchema
from tests.patience import patient
from tests.peers.java_peer import JVM_OPTIONS, compile_java, fetch_sbe
from tests.peers.peer_process import LINE_TIMEOUT_S, PeerMissingError, cache_folder, go_without, only_one
from tests.pipeline.everything import NULLS, SCHEMA, Everything, any_message

MESSAGES = 300
PRINTED_NULLS = {
    "code": "\0", "name": "", "sized": NULLS.sized, "price": "0/0", "side": "null", "kind": "null", "legSide": "null",
    "mantissa": NULLS.mantissa, "late": NULLS.late,
}  # fmt: skip
"""The tool's printer has no null of JSON for what is absent; each type is written in another way."""


@pytest.fixture(scope="session")
def sbe_tool() -> Callable[[Path, list[bytes]], list[dict[str, Any]]]:
    """Reads messages by a schema, with SBE's tool; goes without where it cannot be had."""
    if shutil.which("java") is None:
        go_without(PeerMissingError("Java is not installed"))
    try:
        with only_one():
            jar = fetch_sbe()
            classes = cache_folder() / "sbe-classes"
            compile_java([Path(__file__).with_name("sbe") / "SbeAsJson.java"], str(jar), classes)
    except PeerMissingError as missing:
        go_without(missing)

    def read(schema: Path, messages: list[bytes]) -> list[dict[str, Any]]:
        command = ["java", *JVM_OPTIONS, "-cp", f"{jar}{os.pathsep}{classes}", "SbeAsJson", str(schema)]
        lines = "".join(f"{message.hex()}\n" for message in messages)
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=patient(LINE_TIMEOUT_S), check=False
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return read


def as_ordo(values: dict[str, Any]) -> dict[str, Any]:
    """The printer's values as Ordo has them: null values as None, sets as the names that are set."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in PRINTED_NULLS and value == PRINTED_NULLS[name]:
            found[name] = None
        elif name == "flags":
            found[name] = [flag for flag, is_set in value.items() if is_set]
        elif isinstance(value, dict):
            found[name] = as_ordo(value)
        elif isinstance(value, list):
            found[name] = [as_ordo(row) for row in value]
        else:
            found[name] = value
    return found


@pytest.mark.peers
@pytest.mark.parametrize("order", ["<", ">"])
def test_both_read_the_same_values(
    order: str, sbe_tool: Callable[[Path, list[bytes]], list[dict[str, Any]]], tmp_path: Path
) -> None:
    schema = tmp_path / "schema.xml"
    schema.write_text(SCHEMA if order == "<" else SCHEMA.replace("littleEndian", "bigEndian"))
    generator = random.Random(41)
    messages = [
        value.encode(order) for value in (Everything(), NULLS, *(any_message(generator) for _ in range(MESSAGES)))
    ]
    ours = SbeSchema.load(str(schema))
    theirs = sbe_tool(schema, messages)
    assert len(theirs) == len(messages)
    for message, read in zip(messages, theirs, strict=True):
        assert ours.decode(message)[2] == as_ordo(read)
