"""The logs of two clusters are not mixed: in one read, in an export, in a copy, or behind a stream's checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import ordo
from ordo.archive.segments.catalog import RecordingDescriptor
from ordo.archive.store.lmdb_store import open_lmdb
from ordo.cluster.module.state.folder_rows import Owner
from ordo.cluster.module.state.state_store import StateStore
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.known_cluster import KnownCluster
from ordo.cluster.wire.log_identity import TERM_LEAP, Origin, find_origin, identity_text, unpack_identity
from ordo.follow.recordings.ranges import Survey
from ordo.pipeline.alerts.state_watch import StateWatch
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.export.chunks import checked_origin
from ordo.pipeline.export.export import ExportState, export, read_export
from ordo.pipeline.export.lake import CLUSTER_PARTS, LakeSettings, compact, export_delta
from ordo.pipeline.generate import RecordingBuilder, new_term, session_message
from ordo.pipeline.job_run import plain_error
from ordo.pipeline.jobs.audit import audit
from ordo.pipeline.recordings.network import NetworkLog, plan_network
from ordo.pipeline.recordings.object_copy import copy_archive
from ordo.pipeline.recordings.object_store import Store
from ordo.pipeline.recordings.options import ReadSettings
from ordo.pipeline.recordings.recordings import open_recordings, whose_log
from ordo.pipeline.spark.network_stream import NetworkPartition, NetworkStreamReader
from ordo.pipeline.spark.offsets import check_survey, with_cluster
from ordo.pipeline.spark.source import LogStreamReader
from ordo.runtime.errors import OtherClusterError
from ordo.runtime.io.storage import FileStorage

BEGAN_MS = 1_700_000_000_000
LATER = b"later" + bytes(11)
"""The identity of a cluster that was restored, or of one of an earlier release."""


def first_record(began_ms: int) -> bytes:
    return new_term(0, 0, began_ms, 0, 1)


def identity_event(identity: bytes, begin: int = -1) -> bytes:
    return ordo_codecs.CLUSTER_IDENTITY_EVENT.encode(
        leadership_term_id=0, timestamp=BEGAN_MS, **unpack_identity(identity), log_position=begin, member_id=0
    )


def write_log(root: Path, records: list[bytes], count: int = 9, node: str = "node0") -> str:
    """Write the archive folder of a member whose log begins with these records; its store is not there."""
    with RecordingBuilder(str(root / node / "archive")) as builder:
        for record in records:
            builder.append(record)
        for number in range(count):
            builder.append(session_message(0, 1, BEGAN_MS + number, b"%d" % number))
    return builder.directory


def write_store(archive: str, origin: Origin | None, *, is_earlier: bool = False) -> None:
    """The store of votes and terms, as a member has it beside its archive; one of an earlier release has no owner."""
    path = Path(archive).parent / "cluster" / "state.mdb"
    path.parent.mkdir()
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(path)))
    if not is_earlier:
        store.folder.put_owner(Owner(0, 0))
    if origin is not None:
        store.folder.put_origin(origin)
    store.close()


def origin_of(began_ms: int) -> Origin:
    origin = find_origin(first_record(began_ms))
    assert origin is not None
    return origin


ONE, OTHER = origin_of(BEGAN_MS), origin_of(BEGAN_MS + 1)


@pytest.fixture
def one(tmp_path: Path) -> str:
    return write_log(tmp_path / "one", [first_record(BEGAN_MS)])


@pytest.fixture
def other(tmp_path: Path) -> str:
    """Of another cluster, and longer; its member has the same name."""
    return write_log(tmp_path / "other", [first_record(BEGAN_MS + 1)], 20)


def refused(told: Origin, whose: str, origin: Origin, remedy: str) -> str:
    """The line that says so."""
    return re.escape(f"is of the cluster with identity {told}, and {whose} of the one with identity {origin}: {remedy}")


def told(archive: str) -> Any:
    return whose_log(archive, open_recordings([archive]))


def test_a_folder_says_whose_log_it_has(one: str, tmp_path: Path) -> None:
    assert told(one)[:2] == ONE
    write_store(one, Origin(LATER, 64))
    assert told(one)[:2] == (LATER, 64), "the member knows it"
    unsaid = write_log(tmp_path / "unsaid", [first_record(BEGAN_MS)])
    write_store(unsaid, None)
    assert told(unsaid) is None, "nothing of it is committed"
    earlier = write_log(tmp_path / "earlier", [first_record(BEGAN_MS)])
    write_store(earlier, None, is_earlier=True)
    assert told(earlier)[:2] == ONE, "the log has it, whichever release began it"
    assert told(write_log(tmp_path / "purged", [])) is None
    restored = write_log(tmp_path / "restored", [first_record(BEGAN_MS), identity_event(LATER)])
    assert told(restored).identity == LATER
    said = write_log(tmp_path / "said", [first_record(BEGAN_MS), identity_event(LATER, 128)])
    assert told(said)[:2] == (LATER, 128), "it says from where on"
    repeated = write_log(tmp_path / "repeated", [first_record(BEGAN_MS), identity_event(ONE.identity)])
    assert told(repeated)[:2] == ONE
    purged = write_log(tmp_path / "event", [identity_event(LATER)])
    assert told(purged).identity == LATER


def test_a_store_that_cannot_be_read_says_nothing(one: str) -> None:
    write_store(one, ONE)
    (Path(one).parent / "cluster" / "state.mdb").write_bytes(b"damaged")
    assert told(one) is None


def test_folders_of_two_clusters_are_not_read_together(one: str, other: str, tmp_path: Path) -> None:
    wanted = refused(OTHER, f"{one}, which was met first,", ONE, "give folders of one cluster")
    with pytest.raises(OtherClusterError, match=f"^{re.escape(other)} {wanted}$"):
        ordo.read([one, other])
    with pytest.raises(OtherClusterError, match=wanted):
        ReadSettings.parse({"paths": json.dumps([one, other]), "nodes": "a,b"}).open_recordings()
    same = write_log(tmp_path / "same", [first_record(BEGAN_MS)], 20, "node1")
    unsaid = write_log(tmp_path / "unsaid", [], 5, "node2")
    assert ordo.read([one, same, unsaid]).to_arrow().num_rows == 10 + 21 + 5


def test_a_member_that_knows_no_restored_identity_yet_is_read(one: str, tmp_path: Path) -> None:
    """It was cut off before the cluster got the identity that the other member knows."""
    write_store(one, ONE)
    newer = write_log(tmp_path / "newer", [first_record(BEGAN_MS)], 20, "node1")
    write_store(newer, Origin(LATER, 1 << 20))
    assert ordo.read([one, newer]).to_arrow().num_rows == 31


def write_epochs(archive: str, *epochs: tuple[Origin, int]) -> None:
    """The store of a member whose log went on with these identities, each behind the position where the last ended."""
    write_store(archive, ONE)
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(Path(archive).parent / "cluster" / "state.mdb")))
    store.put_term(0, 0)
    for number, (origin, base) in enumerate(epochs, 1):
        store.put_term(number * TERM_LEAP, base)
        store.folder.put_origin(origin)
    store.close()


SECOND, THIRD = Origin(b"2" * 16, 416), Origin(b"3" * 16, 832)


@pytest.mark.parametrize(("kept", "is_two"), [(1, False), (9, True)])
@pytest.mark.parametrize("is_newer_first", [False, True])
@pytest.mark.parametrize("epochs", [[(SECOND, 384)], [(SECOND, 384), (THIRD, 800)]], ids=["once", "twice"])
def test_a_former_log_is_read_with_the_one_that_went_on_where_it_is_a_beginning_of_it(
    tmp_path: Path, kept: int, is_two: bool, is_newer_first: bool, epochs: list[tuple[Origin, int]]
) -> None:
    """A log that was recovered, restored or promoted dropped what the former one has behind its own beginning."""
    former = write_log(tmp_path, [first_record(BEGAN_MS)], kept)
    newer = write_log(tmp_path, [first_record(BEGAN_MS)], 20, "node1")
    write_epochs(former)
    write_epochs(newer, *epochs)
    assert (open_recordings([former])[0].limit > 416) is is_two
    folders = [newer, former] if is_newer_first else [former, newer]
    if is_two:
        for read in (ordo.read, lambda folders: audit(None, folders), lambda folders: StateWatch(folders).look()):
            with pytest.raises(OtherClusterError, match="give folders of one cluster"):
                read(folders)
        with pytest.raises(OtherClusterError):
            checked_origin(open_recordings(folders), {}, None, "target")
        with pytest.raises(OtherClusterError):
            stream(*folders).initialOffset()
    else:
        assert ordo.read(folders).to_arrow().num_rows == kept + 1 + 21
        assert audit(None, folders)["status"] == "clean"


def test_members_of_two_clusters_are_not_audited_or_watched_together(one: str, other: str) -> None:
    """Without stores, logs that begin differently are for the audit to compare."""
    assert audit(None, [one, other])["status"] == "damaged"
    write_store(one, ONE)
    write_store(other, OTHER)
    wanted = refused(OTHER, f"{one}, which was met first,", ONE, "give folders of one cluster")
    with pytest.raises(OtherClusterError, match=wanted):
        audit(None, [one, other])
    with pytest.raises(OtherClusterError, match=wanted):
        StateWatch([one, other]).look()


def test_folders_that_earlier_releases_left_are_told_apart_by_their_first_records(
    one: str, other: str, tmp_path: Path
) -> None:
    write_store(one, None, is_earlier=True)
    wanted = refused(OTHER, f"{one}, which was met first,", ONE, "give folders of one cluster")
    write_store(other, OTHER)
    with pytest.raises(OtherClusterError, match=wanted):
        ordo.read([one, other])
    older = write_log(tmp_path / "older", [first_record(BEGAN_MS + 1)], 20, "node1")
    write_store(older, None, is_earlier=True)
    with pytest.raises(OtherClusterError, match=wanted):
        ordo.read([one, older])
    purged = write_log(tmp_path / "purged", [], 5, "node2")
    write_store(purged, None, is_earlier=True)
    upgraded = write_log(tmp_path / "upgraded", [first_record(BEGAN_MS)], 20, "node3")
    write_store(upgraded, Origin(LATER, 1 << 30))
    assert ordo.read([one, purged, upgraded]).to_arrow().num_rows == 10 + 5 + 21


@pytest.mark.parametrize("is_told", [True, False], ids=["manifest", "log"])
def test_a_copy_goes_on_with_its_own_cluster_only(one: str, other: str, tmp_path: Path, is_told: bool) -> None:
    """Also with recordings that the copy does not have yet, and after an earlier release, which kept no identity."""
    store = Store(f"file://{tmp_path}/copy")
    assert len(list(copy_archive(one, store))) == 1
    manifest = Path(tmp_path, "copy", "manifest.json")
    assert store.cluster() == ONE
    if not is_told:
        content = json.loads(manifest.read_text())
        del content["cluster"]
        manifest.write_text(json.dumps(content))
    before = sorted(path.name for path in manifest.parent.iterdir())
    wanted = refused(OTHER, f"the copy in {store.url}", ONE, "copy each cluster to a place of its own")
    with pytest.raises(OtherClusterError, match=f"^{re.escape(other)} {wanted}$"):
        list(copy_archive(other, store))
    assert sorted(path.name for path in manifest.parent.iterdir()) == before
    assert list(copy_archive(one, store)) == []
    with RecordingBuilder(one, stream_id=106) as snapshot:
        snapshot.append(b"state" * 100)
    assert len(list(copy_archive(one, store))) == 1
    assert store.cluster() == ONE


def test_a_copy_knows_its_cluster_where_its_log_does_not_say_it(tmp_path: Path) -> None:
    """The member knew it; the log begins later than the record that says it."""
    purged = write_log(tmp_path / "purged", [])
    write_store(purged, ONE)
    store = Store(f"file://{tmp_path}/copy")
    list(copy_archive(purged, store))
    assert told(store.url)[:2] == ONE
    other = write_log(tmp_path / "other", [first_record(BEGAN_MS + 1)])
    with pytest.raises(OtherClusterError, match=refused(OTHER, f"{store.url}, which was met first,", ONE, "give")):
        ordo.read([store.url, other])


@pytest.mark.parametrize(
    ("epochs", "wanted"),
    [
        ([], "does not know whose log it had where the copy ends"),
        ([(SECOND, 384), (Origin(LATER, 1 << 20), 1 << 19)], "and the copy in"),
        ([(Origin(LATER, 1 << 20), 1 << 19)], ""),
    ],
    ids=["unknown", "dropped", "beginning"],
)
def test_a_copy_goes_on_only_where_the_folder_shows_that_it_is_a_beginning(
    one: str, tmp_path: Path, epochs: list[tuple[Origin, int]], wanted: str
) -> None:
    """The newest identity begins behind the copy: what it has may have been dropped by one between them."""
    store = Store(f"file://{tmp_path}/copy")
    list(copy_archive(one, store))
    if epochs:
        write_epochs(one, *epochs)
    else:
        write_store(one, Origin(LATER, 1 << 20))
    manifest = Path(tmp_path, "copy", "manifest.json").read_bytes()
    if wanted:
        with pytest.raises(OtherClusterError, match=f"{wanted}.*copy each cluster to a place of its own"):
            list(copy_archive(one, store))
        assert Path(tmp_path, "copy", "manifest.json").read_bytes() == manifest
    else:
        with RecordingBuilder(one, stream_id=106) as snapshot:
            snapshot.append(b"state" * 100)
        assert len(list(copy_archive(one, store))) == 1
        assert store.cluster() == (LATER, 1 << 20)


def test_a_manifest_with_a_damaged_identity_is_none(one: str, tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/copy")
    list(copy_archive(one, store))
    manifest = Path(tmp_path, "copy", "manifest.json")
    manifest.write_text(manifest.read_text().replace('"cluster": "', '"cluster": "x'))
    with pytest.raises(PipelineError, match=r"is no manifest of a copy: .*names no cluster"):
        list(copy_archive(one, store))


Export = Callable[[str, str], dict[str, int]]


def export_state_only(folder: str, target: str) -> dict[str, int]:
    """As `ordo.pipeline.export.export` keeps its state, without Spark."""
    file = Path(target) / "state"
    file.parent.mkdir(exist_ok=True)
    state = ExportState.parse(file.read_text() if file.exists() else None)
    recordings = open_recordings([folder])
    state.origin = checked_origin(recordings, state.exported, state.origin, target)
    state.exported |= {entry.key: entry.limit for entry in recordings}
    file.write_text(state.text())
    return state.exported


def export_table(folder: str, target: str) -> dict[str, int]:
    pytest.importorskip("deltalake")
    return export_delta([folder], target, LakeSettings())


@pytest.mark.parametrize("run", [export_state_only, export_table])
def test_an_export_goes_on_with_its_own_cluster_only(run: Export, one: str, other: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    before = run(one, target)
    with pytest.raises(OtherClusterError) as caught:
        run(other, target)
    remedy = "export each cluster into a folder of its own"
    assert re.fullmatch(
        f"{re.escape(other)} {refused(OTHER, f'the export {target}', ONE, remedy)}", caught.value.message
    )
    assert run(one, target) == before, "nothing of it was written"


def test_a_table_without_an_identity_takes_it_at_the_next_run(one: str, other: str, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    target, unsaid = str(tmp_path / "target"), write_log(tmp_path / "unsaid", [])
    export_delta([unsaid], target, LakeSettings())
    assert deltalake.DeltaTable(target).transaction_version(CLUSTER_PARTS[0]) is None
    export_delta([one], target, LakeSettings())
    assert deltalake.DeltaTable(target).transaction_version(CLUSTER_PARTS[0]) == int.from_bytes(ONE.identity[:4])
    compact(target)
    deltalake.DeltaTable(target).create_checkpoint()
    with pytest.raises(OtherClusterError, match="export each cluster"):
        export_delta([other], target, LakeSettings())


def test_the_state_of_an_export_of_an_earlier_release_goes_on(one: str) -> None:
    state = ExportState.parse('{"exported": {"node0/0": 320}}')
    assert state == ExportState({"node0/0": 320}, None)
    state.origin = checked_origin(open_recordings([one]), state.exported, state.origin, "target")
    assert ExportState.parse(state.text()) == ExportState({"node0/0": 320}, ONE)


@pytest.mark.parametrize(("exported", "is_two"), [(320, False), (1 << 21, True)])
def test_an_export_goes_on_with_the_cluster_that_was_restored_from_it(one: str, exported: int, is_two: bool) -> None:
    """From later than what was exported; otherwise another log was exported."""
    write_store(one, Origin(LATER, 1 << 20))
    recordings = open_recordings([one])
    if is_two:
        with pytest.raises(OtherClusterError):
            checked_origin(recordings, {"node0/0": exported}, ONE, "target")
    else:
        assert checked_origin(recordings, {"node0/0": exported}, ONE, "target") == (LATER, 1 << 20)


@pytest.mark.parametrize(("exported", "is_two"), [(320, False), (640, True)])
def test_an_export_goes_on_only_where_what_was_exported_is_a_beginning(one: str, exported: int, is_two: bool) -> None:
    """Two clusters went on with the log; what the first one dropped may have been exported before the second began."""
    between = Origin(b"2" * 16, 352)
    write_store(one, ONE)
    store = StateStore(FileStorage(open_lmdb).open_metadata(str(Path(one).parent / "cluster" / "state.mdb")))
    for row in ((0, 0), (TERM_LEAP, 320), (2 * TERM_LEAP, 1 << 20)):
        store.put_term(*row)
    for origin in (between, Origin(LATER, (1 << 20) + 32)):
        store.folder.put_origin(origin)
    store.close()
    recordings = open_recordings([one])
    if is_two:
        with pytest.raises(OtherClusterError, match="the export target of the one"):
            checked_origin(recordings, {"node0/0": exported}, ONE, "target")
    else:
        assert checked_origin(recordings, {"node0/0": exported}, ONE, "target") == (LATER, (1 << 20) + 32)


def test_a_stream_over_the_network_has_nodes_show_that_they_go_on_with_it() -> None:
    proven = list[KnownCluster]()

    def prove(known: KnownCluster) -> None:
        proven.append(known)
        known.refuse_unproven("node0:9014", "cannot show it")
        known.check()

    end = with_cluster({"log": 1 << 10}, ONE)
    found = survey_of(Origin(LATER, 1 << 19))
    with pytest.raises(OtherClusterError, match="node0:9014: cannot show it: begin with a new checkpoint"):
        check_survey(end, 1 << 10, found, prove)
    assert [one.position for one in proven] == [1 << 10]
    assert check_survey(end, 1 << 10, survey_of(ONE), prove) == ONE and len(proven) == 1
    assert check_survey(end, 1 << 10, found, lambda known: None) == (LATER, 1 << 19)


def stream(*folders: str) -> LogStreamReader:
    given = {"paths": json.dumps(folders), "startingPosition": "earliest"}
    return LogStreamReader(ReadSettings.parse(given), ("position",))


def test_a_stream_goes_on_with_its_own_cluster_only(one: str, other: str) -> None:
    reader = stream(one)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert start["cluster"] == end["cluster"] == identity_text(ONE)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert len(reader.partitions(start, end)) == 1
    wanted = refused(OTHER, "the checkpoint", ONE, "begin with a new checkpoint")
    for action in (
        lambda: stream(other).latestOffset(end, ReadAllAvailable()),
        lambda: stream(other).partitions(start, end),
    ):
        with pytest.raises(OtherClusterError, match=f"^{re.escape(other)} {wanted}$"):
            action()


def test_a_checkpoint_without_an_identity_takes_it_at_the_next_batch(one: str, tmp_path: Path) -> None:
    """One of an earlier release; and of folders that do not say whose they are it stays as it is."""
    (log,) = open_recordings([one])
    end = stream(one).latestOffset({log.key: 0}, ReadAllAvailable())
    assert end == {log.key: log.limit, "cluster": identity_text(ONE)}
    unsaid = write_log(tmp_path / "unsaid", [], 20)
    assert stream(unsaid).latestOffset(end, ReadAllAvailable())["cluster"] == end["cluster"]
    assert set(stream(unsaid).initialOffset()) == {log.key}


def survey_of(origin: Origin | None, end_position: int = 1 << 20) -> Survey:
    descriptor = RecordingDescriptor(
        0, 0, -1, 0, -1, 0, 1 << 20, 1 << 16, 1408, 1, 100, "aeron:ipc", "aeron:ipc", "aeron:ipc"
    )
    return Survey(descriptor, 0, end_position, ("node0:9014",), {}, origin)


def network_stream(found: Survey) -> NetworkStreamReader:
    class Log(NetworkLog):
        def survey(self, unawaited: tuple[str, ...] = ()) -> Survey:
            return found

    return NetworkStreamReader(Log(found.answered), ReadSettings.parse({"path": "ordo://node0:9014"}), ("position",))


def test_a_stream_over_the_network_goes_on_with_its_own_cluster_only() -> None:
    reader = network_stream(survey_of(ONE))
    end = reader.latestOffset({"log": 0}, ReadAllAvailable())
    assert end == {"log": 1 << 20, "cluster": identity_text(ONE)}
    assert network_stream(survey_of(None)).latestOffset(end, ReadAllAvailable()) == end, "an earlier release's nodes"
    wanted = refused(OTHER, "the checkpoint", ONE, "begin with a new checkpoint")
    with pytest.raises(OtherClusterError, match=f"^node0:9014 {wanted}$"):
        network_stream(survey_of(OTHER)).latestOffset(end, ReadAllAvailable())
    with pytest.raises(OtherClusterError, match=wanted):
        network_stream(survey_of(OTHER)).partitions({"log": 0}, end)
    shorter = network_stream(survey_of(OTHER, 1 << 10))
    shorter.prepareForTriggerAvailableNow()
    with pytest.raises(OtherClusterError, match=wanted):
        shorter.latestOffset(end, ReadAllAvailable())


def test_tasks_read_no_node_of_another_cluster_than_the_plan() -> None:
    log = NetworkLog(("node0:9014",))
    runs = plan_network(log, survey_of(ONE), 0, 1 << 20, 0, 1 << 16, None)
    assert len(runs) == 16 and {run.origin for run in runs} == {ONE}
    reader = network_stream(survey_of(None))
    reader._time_unit = 0
    parts = reader.partitions({"log": 0}, {"log": 1 << 20, "cluster": identity_text(ONE)})
    assert {part.run.origin for part in parts if isinstance(part, NetworkPartition)} == {ONE}, "by the checkpoint"


@pytest.mark.spark
@pytest.mark.thorough
def test_on_spark_the_line_comes_through(spark: SparkSession, one: str, other: str, tmp_path: Path) -> None:
    """A batch read, an export and a stream, whose errors Spark wraps."""
    with pytest.raises(Exception, match="first") as caught:
        spark.read.format("ordo").load([one, other]).count()
    assert isinstance(plain_error(caught.value), OtherClusterError)
    target, checkpoint = str(tmp_path / "target"), str(tmp_path / "checkpoint")
    before = export(spark, [one], target)
    with pytest.raises(OtherClusterError, match=refused(OTHER, f"the export {target}", ONE, "export each cluster")):
        export(spark, [other], target)
    assert export(spark, [one], target) == before and read_export(spark, target).count() == 10

    def run(folder: str) -> None:
        log = spark.readStream.format("ordo").option("startingPosition", "earliest").load(folder)
        writer = log.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()

    run(one)
    run(one)
    with pytest.raises(Exception, match="the checkpoint of the one") as stopped:
        run(other)
    error = plain_error(stopped.value)
    assert isinstance(error, OtherClusterError)
    assert re.search(refused(OTHER, "the checkpoint", ONE, "begin with a new checkpoint"), error.message)
