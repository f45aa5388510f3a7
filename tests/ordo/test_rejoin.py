"""`ordo standby rejoin`: what a folder is compared with, what is refused, and what a crash leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from ordo.archive.archive import Archive
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.backup.folder import CLUSTER, read_json, write_json
from ordo.cli import EXIT_FAILED, EXIT_USAGE, run
from ordo.cluster.admin.member_store import open_stopped, open_stored
from ordo.cluster.module.state.commit_note import CommitNote, read_noted_position
from ordo.cluster.module.state.folder_rows import Owner, claim
from ordo.cluster.module.state.state_store import SnapshotEntry, StateStore
from ordo.cluster.settings.config import NodeSettings, load_config
from ordo.cluster.wire.log_identity import Origin
from ordo.cluster.wire.log_index.entries import FILE_NAME as INDEX_NAME
from ordo.runtime.errors import ClusterError, StorageError
from ordo.runtime.io.storage import FileStorage
from ordo.runtime.native.clock import SystemClock
from ordo.salvage.holdings import Recordings, examine
from ordo.standby.divergence import compare_with
from ordo.standby.folder import PROMOTING, PROMOTION, STATUS, SWITCH, is_promoted, is_standby, prepare
from ordo.standby.rejoin import REJOIN
from ordo.standby.surplus import keep_surplus

pytest.importorskip("ordo.pipeline.decoding.synthetic", reason="the pipeline is not compiled for this Python")
from ordo.pipeline.generate import LogShape, generate_log

TOML = '[node]\nmember_id = 0\ndata_dir = "{0}"\n[[members]]\nid = 0\nhost = "127.0.0.1"\nport = 20000\n'
OLD, NEW = Origin(b"o" * 16, 0), b"n" * 16
ENDPOINT = "10.0.0.9:20000"
COMMON = 30
"""So many records of the folder are in the new cluster's log."""
TERM = 64 << 10


class NewCluster:
    """A cluster that goes on behind the first records of a log, or one with a log of its own."""

    def __init__(self, records: list[tuple[int, bytes]], origin: Origin, start_position: int = 0) -> None:
        self.records, self.origin, self.start_position = records, origin, start_position
        self.is_closed = False

    def messages(self, position: int) -> Iterator[tuple[int, bytes]]:
        return iter([one for one in self.records if one[0] > position])

    def __enter__(self) -> NewCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The node.toml of a former primary's member that names it alone."""
    file = tmp_path / "former.toml"
    file.write_text(TOML.format(tmp_path / "data"))
    return file


@pytest.fixture
def former(path: Path) -> NodeSettings:
    """Its folder, with 50 messages in two terms, all of which it knew to be committed."""
    return make_folder(load_config(path), LogShape(messages=50, terms=2))


def make_folder(config: NodeSettings, shape: LogShape) -> NodeSettings:
    for made in (config.archive_dir, config.cluster_dir):
        made.mkdir(parents=True)
    log = generate_log(str(config.archive_dir), shape)
    storage = FileStorage(open_lmdb)
    storage.open_metadata(str(config.cluster_dir / "state.mdb")).close()
    with open_stopped(config) as store:
        store.put_log_recording(log.recording_id)
        store.folder.put_owner(Owner(0, 0))
        store.folder.put_origin(OLD)
    note = CommitNote(storage, str(config.cluster_dir))
    note.put(examine(config).holding.end_position)
    note.close()
    return config


def records_of(config: NodeSettings) -> list[tuple[int, bytes]]:
    with open_stored(config) as store:
        recording_id = store.load().log_recording_id
    reader = Recordings(FileStorage(open_lmdb), str(config.archive_dir)).reader(recording_id)
    return [(one.position, one.payload) for one in reader.messages()]


def goes_on(config: NodeSettings, count: int = COMMON) -> NewCluster:
    """A cluster that has the first records of a folder."""
    common = records_of(config)[:count]
    end = common[-1][0]
    return NewCluster([*common, (end + 96, b"another record")], Origin(NEW, end + 32))


@pytest.fixture
def rejoin(
    former: NodeSettings, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """The command, with a cluster that goes on with the folder's first records at the endpoints."""
    cluster = goes_on(former)
    monkeypatch.setattr("ordo.standby.successor_log.SuccessorLog", lambda *_: cluster)

    def give(*words: str) -> tuple[int, str, str]:
        status = run(["standby", "rejoin", "--config", str(path), "--endpoints", ENDPOINT, *words])
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return give


def damage(file: Path, offset: int) -> None:
    """Flip one byte of a file."""
    with file.open("r+b") as content:
        content.seek(offset)
        flipped = content.read(1)[0] ^ 0xFF
        content.seek(offset)
        content.write(bytes([flipped]))


def drop_count(rejoin: Callable[..., tuple[int, str, str]]) -> str:
    status, out, errors = rejoin("--json")
    assert status == EXIT_FAILED and "nothing was changed: give --drop" in errors
    return str(json.loads(out)["count"])


# -- what it does ------------------------------------------------------------------------------------------------------


def test_what_only_the_folder_has_is_shown_and_kept_and_dropped_by_its_count_alone(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    before = records_of(former)
    surplus = [position for position, _ in before[COMMON:]]
    status, out, _ = rejoin()
    assert status == EXIT_FAILED and f"alike up to position={before[COMMON - 1][0]}" in out
    assert f"{len(surplus)} records more, up to position={surplus[-1]}" in out
    assert f"committed up to position={surplus[-1]}" in out and f"and {len(surplus) - 20} more" in out
    for count in (len(surplus) - 1, len(surplus) + 1, 0):
        status, _, errors = rejoin("--drop", str(count))
        assert status == EXIT_FAILED and f"has {len(surplus)} records that the cluster has not" in errors
    assert records_of(former) == before and not is_standby(former)

    status, out, _ = rejoin("--drop", str(len(surplus)), "--json")
    done = json.loads(out)
    assert status == 0 and done["dropped_count"] == len(surplus) and done["position"] == before[COMMON - 1][0]
    assert records_of(former) == before[:COMMON] and is_standby(former) and not is_promoted(former)
    assert read_noted_position(FileStorage(), str(former.cluster_dir)) == done["position"]
    assert read_json(former.node.data_dir / CLUSTER)["endpoints"] == [ENDPOINT]
    assert run(["log", done["kept"]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines] == surplus
    assert run(["log", done["kept"], "--from", str(surplus[3]), "--until", str(surplus[5])]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert rejoin("--json")[:2] == (0, out), "the same again tells the same"


def test_what_an_earlier_life_as_a_standby_left_is_gone(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]]
) -> None:
    """Its number would have the folder be promoted again, when it copies the record that has it."""
    directory = former.node.data_dir
    for name in (PROMOTION, STATUS, SWITCH, PROMOTING):
        write_json(directory / name, {"number": 4711})
    index = former.cluster_dir / INDEX_NAME
    index.write_bytes(b"of the former log")
    with open_stopped(former) as store:
        store.put_snapshot(SnapshotEntry(64, 1, 0, 1, 7, 8, True))
        store.put_snapshot(SnapshotEntry(records_of(former)[-1][0], 1, 0, 1, 9, 10, True))
    assert rejoin("--drop", drop_count(rejoin))[0] == 0
    assert not index.exists() and not any(
        (directory / name).exists() for name in (PROMOTION, STATUS, SWITCH, PROMOTING)
    )
    with open_stored(former) as store:
        valid = [one.log_position for one in store.load().snapshots if one.is_valid]
        assert valid == [64], "none of what was dropped"
        assert store.folder.origin == OLD
    (kept,) = former.cluster_dir.glob("rejoin-*.json")
    assert json.loads(kept.read_text())[PROMOTION] == {"number": 4711}


@pytest.mark.parametrize("terms_before", [0, 1, 2, 5])
def test_what_is_kept_can_be_read_wherever_it_begins_in_a_segment(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], terms_before: int
) -> None:
    """A segment has several terms, and a recording's first one begins at the term of its start."""
    former = make_folder(load_config(path), LogShape(messages=3000, term_length=TERM, segment_length=4 * TERM))
    own = records_of(former)
    count = sum(1 for position, _ in own if position <= TERM * terms_before + 8000)
    found = compare_with(examine(former), str(former.archive_dir), FileStorage(open_lmdb), goes_on(former, count))
    log = examine(former).log
    assert log is not None and found.record_count == len(own) - count and found.end_position > 8 * TERM
    kept = keep_surplus(FileStorage(open_lmdb), str(tmp_path), str(former.archive_dir), log, found)

    def read_again() -> list[tuple[int, bytes]]:
        reader = Recordings(FileStorage(open_lmdb), kept).reader(0)
        return [(one.position, one.payload) for one in reader.messages()]

    assert read_again() == own[count:]
    Archive(kept, storage=FileStorage(open_lmdb), clock=SystemClock()).close()
    assert read_again() == own[count:], "none of its files is one of before its beginning"
    assert run(["log", kept]) == 0
    shown = [int(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    assert shown == [position for position, _ in own[count:]]


def test_a_copy_that_is_not_what_the_log_has_is_neither_kept_nor_taken(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]]
) -> None:
    before = records_of(former)
    with mock.patch("ordo.standby.surplus._copy_term"):  # it writes nothing
        status, _, errors = rejoin()
    assert status == EXIT_FAILED and "is not read back as it was written" in errors
    count = drop_count(rejoin)
    (file,) = former.node.data_dir.glob("surplus-*/archive/*.rec")
    damage(file, before[-1][0] - 40)
    status, _, errors = rejoin("--drop", count)
    assert status == EXIT_FAILED and "has something else than this folder's log: move it away" in errors
    assert records_of(former) == before and not is_standby(former)
    file.parent.parent.rename(former.node.data_dir / "away")
    assert rejoin("--drop", count)[0] == 0


STEPS = (
    "ordo.standby.surplus._copy_term",
    "ordo.standby.rejoin.keep_surplus",
    "ordo.standby.rejoin.keep_evidence",
    "ordo.standby.rejoin._cut_off",
    "ordo.standby.rejoin.note_committed",
    "ordo.standby.rejoin._change_files",
)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_each_step_is_followed_by_the_same(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]], step: str
) -> None:
    before, count = records_of(former), str(len(records_of(former)) - COMMON)
    with mock.patch(step, side_effect=KeyboardInterrupt):
        rejoin("--drop", count)
    with open_stored(former) as store:
        is_marked = store.folder.rejoining is not None
        if is_marked:
            with pytest.raises(ClusterError, match="give the same `ordo standby rejoin` again"):
                claim(store.folder, Owner(0, 0), "/data", 1)
            with pytest.raises(ClusterError, match="give the same `ordo standby rejoin` again"):
                claim(store.folder, Owner(0, 0), "/data", 1, is_standby=True)
        else:
            assert records_of(former) == before
    assert not is_standby(former) and not is_promoted(former)
    assert rejoin(*(() if is_marked else ("--drop", count)))[0] == 0, "behind the mark the order stands"
    assert is_standby(former) and records_of(former) == before[:COMMON]


def test_what_an_earlier_rejoin_to_the_same_cluster_wrote_down_stays(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]]
) -> None:
    earlier = former.cluster_dir / f"rejoin-{NEW.hex()[:12]}-1.json"
    earlier.write_text("what the store had then")
    assert rejoin("--drop", drop_count(rejoin))[0] == 0
    assert earlier.read_text() == "what the store had then"
    assert json.loads(earlier.with_name(earlier.name.replace("-1.json", "-2.json")).read_text())["store"]


def test_the_same_again_is_for_the_same_cluster(
    former: NodeSettings, path: Path, rejoin: Callable[..., tuple[int, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody is told that a folder follows a cluster which it does not follow."""
    count = drop_count(rejoin)

    def give_others() -> str:
        assert run(["standby", "rejoin", "--config", str(path), "--endpoints", "10.0.0.7:20000"]) == EXIT_FAILED
        return capsys.readouterr().err

    with mock.patch("ordo.standby.rejoin._cut_off", side_effect=KeyboardInterrupt):
        rejoin("--drop", count)
    assert f"A rejoin with --endpoints {ENDPOINT} was given before" in give_others() and not is_standby(former)
    assert rejoin()[0] == 0
    assert "is a standby's already: start it with `ordo standby run`" in give_others()
    assert rejoin()[0] == 0


def test_what_is_made_of_the_former_log_does_not_come_back_with_a_loss_of_power(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]]
) -> None:
    """The index is removed each time, and what is known to be committed is safe before the store is a standby's."""
    count, index = drop_count(rejoin), former.cluster_dir / INDEX_NAME
    with mock.patch("ordo.standby.rejoin.note_committed", side_effect=KeyboardInterrupt):
        rejoin("--drop", count)
    index.write_bytes(b"its removal was lost")
    steps, synced, stored = list[str](), CommitNote.sync, StateStore.become_standby

    def sync(note: CommitNote) -> None:
        synced(note)
        steps.append("note")

    def become_standby(store: StateStore, position: int) -> None:
        assert not index.exists()
        stored(store, position)
        steps.append("store")

    with (
        mock.patch.object(CommitNote, "sync", sync),
        mock.patch.object(StateStore, "become_standby", become_standby),
    ):
        assert rejoin()[0] == 0
    assert steps == ["note", "store"]


def test_the_last_step_is_whole_or_not_done(former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]]) -> None:
    count = drop_count(rejoin)
    with mock.patch.object(StateStore, "become_standby", side_effect=StorageError("no space left")):
        assert rejoin("--drop", count)[0] != 0
    with pytest.raises(ClusterError, match="was being made a standby's"):
        examine(former)
    with pytest.raises(ClusterError, match="was being made a standby's"):
        prepare(former)
    assert rejoin()[0] == 0 and is_standby(former)
    assert read_json(former.node.data_dir / REJOIN)["endpoints"] == [ENDPOINT]


def test_records_of_leaders_alone_need_no_order(former: NodeSettings) -> None:
    """A leader that is elected behind the end of a log adds one, and nothing else."""
    found = compare_with(examine(former), str(former.archive_dir), FileStorage(open_lmdb), goes_on(former))
    assert found.needs_order
    terms = [one for one in found.records if one.kind == "new_term"]
    assert terms and not found._replace(records=terms).needs_order and not found._replace(records=[]).needs_order


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(former: NodeSettings, cluster: NewCluster) -> str:
    with pytest.raises(ClusterError) as error:
        compare_with(examine(former), str(former.archive_dir), FileStorage(open_lmdb), cluster)
    assert "\n" not in error.value.message
    return error.value.message


@pytest.mark.parametrize("index", [COMMON // 2, COMMON + 5])
def test_a_damaged_log_is_not_cut_at_its_damage(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]], index: int
) -> None:
    """Nobody can say what is behind the damage, and so what would be dropped."""
    own = records_of(former)
    (file,) = former.archive_dir.glob("*.rec")
    damage(file, own[index][0] - 40)
    content = file.read_bytes()
    for words in ((), ("--drop", str(max(index - COMMON, 0)))):
        status, _, errors = rejoin(*words)
        assert status == EXIT_FAILED and f"is damaged behind position={own[index - 1][0]} (" in errors
        assert "Keep the folder, and take that of another member" in errors and errors.count("\n") == 1
    assert file.read_bytes() == content and not is_standby(former)


def test_a_log_that_lacks_what_was_committed_is_not_compared(former: NodeSettings) -> None:
    note = CommitNote(FileStorage(open_lmdb), str(former.cluster_dir))
    note.put(records_of(former)[-1][0] + 64)
    note.close()
    assert "lacks a part of what it knew to be committed" in refused(former, goes_on(former))


def test_a_cluster_that_does_not_descend_from_the_folders_is_refused(former: NodeSettings) -> None:
    own = records_of(former)
    foreign = [(position, bytes(len(record))) for position, record in own]
    assert "have no record in common" in refused(former, NewCluster(foreign, Origin(NEW, 32)))
    assert "give the ingress of the one that was promoted" in refused(former, NewCluster(own, OLD))
    ancestor = NewCluster([*own[:COMMON], (own[COMMON][0] + 32, b"of before")], Origin(NEW, 0))
    assert "it was that cluster before" in refused(former, ancestor)
    gone = NewCluster([], Origin(NEW, own[-1][0] + 32), start_position=own[-1][0])
    assert "nothing is left to compare it with" in refused(former, gone)
    middle, end = own[10][0], own[-1][0]
    others = NewCluster([(end + 32, b"another record")], Origin(NEW, middle + 32), start_position=middle)
    assert "nothing is left to compare it with" in refused(former, others), "both may have been alike before"


def test_a_folder_that_a_process_has_is_refused(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]]
) -> None:
    for directory in (former.cluster_dir, former.node.data_dir):
        with FileStorage(open_lmdb).lock_directory(str(directory)):
            status, _, errors = rejoin()
        assert status == EXIT_FAILED and "in use" in errors


def test_a_folder_that_was_started_meanwhile_is_compared_again(
    former: NodeSettings, rejoin: Callable[..., tuple[int, str, str]]
) -> None:
    count = drop_count(rejoin)

    def start(*_: object) -> str:
        with open_stopped(former) as store:
            claim(store.folder, Owner(0, 0), "/data", 1)
        return ""

    with (
        mock.patch("ordo.standby.standby_commands.find_refusal", start, create=True),
        mock.patch("ordo.standby.rejoin.find_refusal", start),
    ):
        status, _, errors = rejoin("--drop", count)
    assert status == EXIT_FAILED and "was started since it was read" in errors and not is_standby(former)


def test_a_configuration_that_names_others_and_the_folder_of_another_member_are_refused(
    former: NodeSettings, path: Path, rejoin: Callable[..., tuple[int, str, str]]
) -> None:
    before = path.read_text()
    path.write_text(before + '[[members]]\nid = 1\nhost = "127.0.0.1"\nport = 21000\n')
    assert "a standby is promoted to a cluster of one" in rejoin()[2]
    path.write_text(before.replace("member_id = 0", "member_id = 3").replace("id = 0\nhost", "id = 3\nhost"))
    assert "is that of member 0 of cluster 0" in rejoin()[2]
    path.write_text(before.replace("/data", "/empty"))
    status, _, errors = rejoin()
    assert status in (EXIT_FAILED, EXIT_USAGE) and "has no store" in errors


def test_the_folder_of_no_archive_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["log", str(tmp_path)]) != 0 and "no archive is there" in capsys.readouterr().err
    assert run(["log", str(tmp_path), "--from", "live"]) == EXIT_USAGE
    assert "only a position" in capsys.readouterr().err
