"""The extras `delta` and `s3` at the lowest versions that pyproject.toml lets in: a copy, and a table made of it.

Their libraries are imported where they are used, so that only use shows whether they fit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.conftest import ROOT, run
from tests.packaging.test_lower_bounds import environment

pytestmark = [pytest.mark.stores, pytest.mark.slow, pytest.mark.timeout(1800)]
LAKE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import deltalake
import ordo
from ordo.pipeline.decoding.payloads import StructDecoder
from ordo.pipeline.export.lake import LakeSettings, compact, export_delta
from ordo.pipeline.generate import LogShape, generate_log
from ordo.pipeline.recordings.object_copy import copy_archive, fetch_archive
from ordo.pipeline.recordings.object_store import Store

work, s3 = sys.argv[2], json.loads(sys.argv[3])
folder, copy, table = f"{work}/node0/archive", "s3://bucket/lowest", "s3://bucket/lowest-table"
generate_log(folder, LogShape(messages=2000))
assert len(list(copy_archive(folder, Store(copy, s3)))) == 1
positions = ordo.read(folder, columns="position").to_arrow()["position"].to_pylist()
assert ordo.read(copy, storage_options=s3, columns="position").to_arrow()["position"].to_pylist() == positions
assert len(list(fetch_archive(Store(copy, s3), f"{work}/back"))) == 1
target = {
    "AWS_ENDPOINT_URL": s3["client_kwargs"]["endpoint_url"], "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
}
plain = LakeSettings(chunk_bytes=1 << 18, sort_by=("session_id",), storage=target, source_storage=s3)
newer = LakeSettings(
    chunk_bytes=1 << 18, sort_by=("session_id",), storage=target, source_storage=s3,
    decoder=StructDecoder("<Q", ("first",)),
)
export_delta([copy], table, plain, commit=str(1 << 18))
for _ in range(2):
    export_delta([copy], table, newer)
compact(table, ("session_id",), target)
found = deltalake.DeltaTable(table, storage_options=target).to_pyarrow_table(columns=["position", "record"])
assert sorted(found["position"].to_pylist()) == positions and found["record"].null_count < len(positions)
print(f"rows={len(positions)}")
"""


def test_the_lowest_versions_make_a_table_of_a_copy(tmp_path: Path, s3: dict[str, Any]) -> None:
    python = environment(tmp_path / "lowest", "local", "delta", "s3")
    assert "rows=2808\n" in run(python, "-B", "-c", LAKE, ROOT, tmp_path, json.dumps(s3), cwd=tmp_path)
