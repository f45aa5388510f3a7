"""What the system is asked to make durable: each sync of the storage, of its thread, and of LMDB, seen by strace."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYNC = re.compile(r"\b(fsync|fdatasync|msync)\(\d+<([^>]*)>\)")
STEPS = {
    "file": """
file = FileStorage().open_segment(f"{folder}/file", 4096, create=True)
mark()
file.write_bytes(b"one", 0)
file.sync_now()
""",
    "queue": """
storage = FileStorage()
file, queue = storage.open_segment(f"{folder}/queue", 4096, create=True), storage.sync_queue()
mark()
file.write_bytes(b"one", 0)
ticket = queue.request_sync(file)
while queue.last_completed < ticket:
    time.sleep(0.001)
""",
    "made": """
storage = FileStorage()
mark()
storage.make_directory(f"{folder}/one/two")
""",
    "folder": """
storage = FileStorage()
mark()
storage.sync_directory(folder)
""",
    "lmdb": """
store = open_lmdb(f"{folder}/lmdb")
mark()
with store.transaction() as txn:
    txn.put(b"key", b"value")
""",
    "target": """
from pathlib import Path
from ordo.pipeline.export.target import LocalFile
target = LocalFile(Path(folder) / "target")
mark()
target.write("state")
""",
}
EXPECTED = {
    "file": [("fdatasync", "file")],
    "queue": [("fdatasync", "queue")],
    "made": [("fsync", ""), ("fsync", "one")],
    "folder": [("fsync", "")],
    "lmdb": [("fdatasync", "lmdb")],
    "target": [("fsync", "target.new"), ("fsync", "")],
}
"""By step: the calls, and the file in the folder that each is of."""


@pytest.mark.parametrize("step", STEPS)
def test_the_system_is_asked_for_a_sync(step: str, tmp_path: Path) -> None:
    if step == "target":
        pytest.importorskip("pyspark")
    before = """
import os, sys, time
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.runtime.io.storage import FileStorage
folder = sys.argv[1]

def mark():
    os.close(os.open("/dev/null", os.O_RDONLY))
    try:
        os.stat("/marked")
    except OSError:
        pass
"""
    trace = tmp_path.parent / f"{tmp_path.name}.trace"
    traced = "trace=fsync,fdatasync,msync,newfstatat,stat,statx"
    command = ["strace", "-f", "-y", "-e", traced, "-o", str(trace), sys.executable, "-c", before + STEPS[step]]
    subprocess.run([*command, str(tmp_path)], cwd=ROOT, check=True, timeout=120)
    after = trace.read_text().partition('"/marked"')[2]
    found = [(call, Path(path)) for call, path in SYNC.findall(after)]
    assert found == [(call, tmp_path / name if name else tmp_path) for call, name in EXPECTED[step]]
