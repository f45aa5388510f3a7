"""`ordo archive ... --endpoints`: what a served archive says from afar is what its folder says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.inspection import recording_inspection, remote_recordings
from ordo.archive.segments.catalog import Catalog
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cli import run
from ordo.runtime.errors import ArchiveTimeoutError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.security.tokens import new_token
from tests.archive.served import Served, record, token_table
from tests.archive.test_reader import flip
from tests.patience import patient

SENT = [bytes([number % 256]) * (number * 37 % 5000) for number in range(150)]
FOLDER_ONLY = ("mark-invalid", "mark-valid", "checksum", "delete-orphans", "compact", "export-catalog")


@pytest.fixture
def recorded(served: Served, free_port: Callable[[], int]) -> Iterator[Served]:
    """Two recordings of several segments: whole messages, fragments and PADs."""
    with served.connect() as client:
        for _ in range(2):
            record(client, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", SENT)
    yield served


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_messages_are_dumped_from_afar_as_from_the_folder(recorded: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["archive", "dump", str(recorded.folder), "1", "--count", "500", "--json"]) == 0
    here = lines_of(capsys)
    assert [bytes.fromhex(one["payload_hex"]) for one in here] == [payload[:64] for payload in SENT]
    place = ["1", "--endpoints", recorded.address]
    assert run(["archive", "dump", *place, "--count", "500", "--json"]) == 0
    there = lines_of(capsys)
    assert {one.pop("archive") for one in there} == {recorded.address}
    assert there == [{name: one[name] for name in one if name != "archive"} for one in here]
    assert run(["archive", "dump", *place, "--from", str(here[120]["position"]), "--count", "2", "--full"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[2] for line in shown.splitlines() if line.startswith("message at")] == [
        f"position={one['start_position']}" for one in here[121:123]
    ]
    assert "bytes more" not in shown
    assert run(["archive", "dump", *place, "--from", str(here[120]["position"] + 32)]) == 1
    assert run(["archive", "dump", *place, "--from", "33"]) == 1
    assert "no message begins at position=33" in capsys.readouterr().err
    assert run(["archive", "dump", "7", "--endpoints", recorded.address]) == 1
    assert "recording 7 is not in the archive" in capsys.readouterr().err


def test_recordings_are_verified_by_their_archive(recorded: Served, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--endpoints", recorded.address]
    assert run(["archive", "verify", *place]) == 0
    found = list(recording_inspection.verify(str(recorded.folder)))
    lines = [f"recording {one.recording_id}: OK start=0 stop={one.stop_position}" for one in found]
    assert capsys.readouterr().out.splitlines() == [recorded.address, *lines]
    segment = recorded.folder / "0-65536.rec"
    flip(segment, 30_000)
    assert run(["archive", "verify", *place]) == 1
    assert run(["archive", "verify", str(recorded.folder)]) == 1
    name, damaged, whole, here, _ = capsys.readouterr().out.splitlines()
    assert (name, whole) == (recorded.address, lines[1]), "the check goes on behind damage"
    assert damaged.startswith("recording 0: UNREADABLE ") and here.startswith("recording 0: DAMAGED ")
    assert damaged.endswith(here.removeprefix("recording 0: DAMAGED ")), "both name position, file and reason"
    assert run(["archive", "verify", *place, "--json", "--recording", "0"]) == 1
    assert run(["archive", "verify", str(recorded.folder), "--json", "--recording", "0"]) == 1
    there, in_folder = lines_of(capsys)
    (row,), (row_in_folder,) = there["recordings"], in_folder["recordings"]
    assert (row["is_good"], row["frame_count"], there["orphans"]) == (False, None, None)
    assert str(segment) in row["damage"]
    assert 65536 <= row_in_folder["damaged_at"] <= 65536 + 30_000
    segment.unlink()
    assert run(["archive", "verify", *place, "--recording", "0"]) == 1
    assert "missing" in capsys.readouterr().out
    flip(recorded.folder / "0-0.rec", 8)
    assert run(["archive", "verify", *place]) == 1
    _, damaged, whole = capsys.readouterr().out.splitlines()
    assert whole == lines[1] and "recording 0: UNREADABLE" in damaged and "position=0" in damaged, "its first header"


def test_archives_that_do_not_answer_keep_nobody_from_being_asked(
    recorded: Served, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ordo.archive.inspection.recording_sources.REACH_TIMEOUT_S", patient(0.5))
    dead = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    endpoints = ["--endpoints", ",".join([dead[0], recorded.address, dead[1]])]
    assert run(["archive", "verify", *endpoints]) == 5
    shown = capsys.readouterr()
    assert "recording 1: OK" in shown.out
    assert [one in line for one, line in zip(dead, shown.err.splitlines(), strict=True)] == [True, True]
    flip(recorded.folder / "0-0.rec", 5000)
    assert run(["archive", "verify", *endpoints]) == 1, "damage counts for more"
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_who_wants_no_more_ends_the_check(recorded: Served) -> None:
    checks = count()

    def check() -> None:
        if next(checks) == 1:
            raise InterruptedError

    with recorded.connect() as client:
        with pytest.raises(InterruptedError):
            list(remote_recordings.verify(client, check=check))
        with pytest.raises(InterruptedError):
            checks = count(1)
            list(remote_recordings.dump(client, 0, check=check))
        assert [one.is_good for one in remote_recordings.verify(client, check=check)] == [True, True]


def test_a_replay_that_ends_for_no_reason_is_no_damage(served: Served, free_port: Callable[[], int]) -> None:
    """The recording is longer than what is sent before any of it is taken."""
    with served.connect() as other:
        record(other, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", [bytes(8_000)] * 500)
        with (
            served.connect(timeout_s=3) as client,
            pytest.raises(ArchiveTimeoutError, match="and the archive does not say why"),
        ):
            list(remote_recordings.verify(client, check=lambda: other.stop_all_replays(0)))


def test_credentials_that_do_not_suffice_are_status_4(
    tmp_path: Path, shm_path: Path, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = {"reader": new_token(), "writer": new_token()}
    tables = token_table("reader", tokens["reader"], "log") + token_table("writer", tokens["writer"], "record")
    (tmp_path / "tokens.toml").write_text(tables)
    options = ("--tokens-file", str(tmp_path / "tokens.toml"))
    served = Served(free_port(), tmp_path / "archive", shm_path / "driver", *options)
    try:
        served.connect(credentials=tokens["reader"].encode()).close()  # commands wait 5 s, a start may take longer
        for name, status in (("reader", 0), ("writer", 4), ("nobody", 4)):
            file = tmp_path / name
            file.write_text(tokens.get(name, new_token()))
            file.chmod(0o600)
            found = run(["archive", "verify", "--endpoints", served.address, "--token-file", str(file)])
            assert found == status, name
            assert capsys.readouterr().err.count("\n") == (status != 0), name
    finally:
        served.stop()


@pytest.mark.parametrize("name", FOLDER_ONLY)
def test_what_needs_the_files_says_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--endpoints", "10.0.0.1:8010"], ["--endpoints=10.0.0.1:8010", "0"]):
        assert run(["archive", name, *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"ordo: ordo archive {name} has no --endpoints: it works on the files of an archive")


@pytest.mark.parametrize(
    "words", [["a", "b", "0"], ["a"], ["a", "-1"], ["a", "0", "--endpoints", "b:1"], ["0"], ["a", "b"]]
)
def test_misuse_of_dump_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["archive", "dump", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_orders_are_told_to_programs(recorded: Served, capsys: pytest.CaptureFixture[str]) -> None:
    recorded.stop()
    folder = str(recorded.folder)
    (recorded.folder / "9-0.rec").write_bytes(b"x")
    told: dict[str, Any] = {}
    for name, *more in (
        ("mark-invalid", "1"),
        ("mark-valid", "1"),
        ("checksum",),
        ("delete-orphans", "--yes"),
        ("compact",),
        ("export-catalog",),
    ):
        assert run(["archive", name, folder, *more, "--json"]) == 0
        (told[name],) = lines_of(capsys)
        assert told[name].pop("archive") == folder
    assert told["mark-invalid"] == {"recording_id": 1, "state": "INVALID"}
    assert told["mark-valid"] == {"recording_id": 1, "state": "VALID"}
    assert told["checksum"]["recordings"] == [{"recording_id": one, "frame_count": 0} for one in (0, 1)]
    assert told["delete-orphans"] == {"deleted": ["9-0.rec"]}
    assert told["compact"]["finished_purges"] == 0
    assert told["export-catalog"]["recording_count"] == 2
    assert run(["archive", "delete-orphans", folder, "--json"]) == 2


def split(folder: Path, base: int) -> int:
    """Makes two recordings of recording 0, which meet at a base position; the id of the later one."""
    catalog = Catalog.open(FileStorage(open_lmdb), str(folder))
    try:
        whole = catalog.find(0)
        assert whole is not None and whole.stop_position > base
        later = catalog.add(whole._replace(start_position=base)).recording_id
        catalog.update(0, stop_position=base)
    finally:
        catalog.close()
    for path in folder.glob("0-*.rec"):
        if int(path.stem.partition("-")[2]) >= base:
            path.rename(folder / f"{later}{path.name[1:]}")
    return later


def test_recordings_that_meet_are_joined_in_a_folder_and_from_afar(
    served: Served, free_port: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    sent = [b"%d" % number + bytes(1000) for number in range(250)]
    with served.connect() as client:
        record(client, f"aeron:udp?endpoint=127.0.0.1:{free_port()}", sent)
    folder = str(served.folder)
    served.stop()
    later = split(served.folder, 2 << 16)
    ids = ["--from", str(later), "--to", "0"]
    assert run(["archive", "migrate", folder, *ids, "--json"]) == 0
    assert lines_of(capsys) == [{"archive": folder, "source": later, "target": 0, "segments": 3}]
    assert run(["archive", "migrate", folder, "--from", "0", "--to", "0"]) == 1
    assert "cannot be migrated to itself" in capsys.readouterr().err
    later = split(served.folder, 1 << 16)
    (served.folder.parent / "cluster").mkdir()
    assert run(["archive", "migrate", folder, "--from", str(later), "--to", "0"]) == 1
    assert "belongs to a node of a cluster" in capsys.readouterr().err
    served.start()
    two = f"{served.address},{served.address}"
    assert run(["archive", "migrate", "--endpoints", two, "--from", str(later), "--to", "0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with served.connect() as client:  # waits until it serves
        assert run(["archive", "migrate", "--endpoints", served.address, "--from", str(later), "--to", "0"]) == 0
        assert f"segments of recording {later} belong to recording 0 now" in capsys.readouterr().out
        assert [message.payload for message in client.replay(0)] == sent
