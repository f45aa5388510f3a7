"""Backups of real clusters, and clusters made from them: the same state, in other folders, with other members."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ordo.archive.segments.segments import segment_name
from ordo.backup.folder import BackupFolder, read_json
from ordo.cluster.settings.config import load_config
from ordo.deploy.launcher import ROOT, LocalCluster
from ordo.follow.entries import LogEntry, decode_entry
from ordo.pipeline.decoding.payloads import MESSAGE_KINDS
from ordo.pipeline.sql.local import read
from ordo.runtime.security.tokens import hash_token, new_token
from tests.cluster.integration.agreement import await_agreement, await_that, await_value, demand_agreement, reports_of
from tests.cluster.integration.command import demand_one_line, ordo
from tests.cluster.integration.conftest import LEDGER, PATIENT, StartCluster
from tests.cluster.integration.services import PID_EVENT
from tests.cluster.integration.test_retention import FORGETFUL, await_purge
from tests.cluster.integration.test_snapshots import take_snapshot
from tests.cluster.integration.writer import Writer
from tests.patience import patient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def endpoints(cluster: LocalCluster) -> str:
    return ",".join(cluster.ingress_endpoints.values())


def back_up(cluster: LocalCluster, folder: Path, *options: str) -> dict[str, Any]:
    """Everything that the cluster has now; what `status` shows of it."""
    done = ordo("backup", "run", str(folder), "--endpoints", endpoints(cluster), "--once", "--timeout", "60", *options)
    assert done.returncode == 0, done
    return status_of(folder)


def back_up_snapshot(cluster: LocalCluster, folder: Path) -> dict[str, Any]:
    """The same, with a snapshot that all members have: they offer it once they know of each other that it is the same
    everywhere, up to a second later."""

    def probe() -> dict[str, Any] | None:
        found = back_up(cluster, folder)
        return found if found["snapshots"] else None

    return await_value(probe, "the snapshot in the backup")


def status_of(folder: Path) -> dict[str, Any]:
    shown = ordo("backup", "status", str(folder), "--json")
    assert shown.returncode == 0, shown
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def restore(folder: Path, cluster: LocalCluster, *options: str) -> str:
    """Makes the data folders of a cluster that never ran; what the command says."""
    configs = [part for one in cluster.member_ids for part in ("--config", str(cluster.config_path(one)))]
    done = ordo("restore", str(folder), *configs, *options)
    assert done.returncode == 0, done
    return done.stdout


def started_at(cluster: LocalCluster) -> list[int]:
    """Where the service of each member began to execute."""
    return [int(str(next(cluster.log_events(one, PID_EVENT))["position"])) for one in cluster.member_ids]


def test_a_new_cluster_goes_on_where_the_old_one_was(start_cluster: StartCluster, tmp_path: Path) -> None:
    old = start_cluster()
    with Writer(old.ingress_endpoints) as writer:
        writer.write(500)
        take_snapshot(old)
        writer.write(500)
        before = demand_agreement(old, [writer])
        found = back_up_snapshot(old, tmp_path / "backup")
        assert len(found["snapshots"]) == 1
        assert len(found["log"]) == 1
        assert found["log"][0]["start"] == 0
        assert found["log"][0]["end"] >= before.position
        assert ordo("backup", "verify", str(tmp_path / "backup")).returncode == 0
    assert read(tmp_path / "backup" / "archive", kinds=MESSAGE_KINDS).to_arrow().num_rows >= 1000, "as a node's folder"
    old.close()
    new = LocalCluster(LEDGER, root=tmp_path / "new")
    said = restore(tmp_path / "backup", new)
    assert "sessions of the old one are closed" in said
    with new:
        new.await_leader(60)
        with Writer(new.ingress_endpoints, writer_id=2) as second:
            second.write(100)
            after = demand_agreement(new, [second, writer])
        assert started_at(new) == [found["snapshots"][0]["position"]] * 3, "from the snapshot, not from the beginning"
    assert after.entries == before.entries + 100


def test_two_clusters_of_one_backup_and_the_same_members_are_told_apart(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    """Restored to one position, with one configuration: nothing but their identities tells them apart."""
    old = start_cluster()
    with Writer(old.ingress_endpoints) as writer:
        writer.write(200)
        position = demand_agreement(old, [writer]).position
        back_up(old, tmp_path / "backup")
    old.close()
    new = LocalCluster(LEDGER, root=tmp_path / "new")
    where = ("--position", str(position))
    said = [restore(tmp_path / "backup", new, *where)]
    first = tmp_path / "first"
    shutil.move(new.data_dir(2), first)
    for member_id in (0, 1):
        shutil.rmtree(new.data_dir(member_id))
    said.append(restore(tmp_path / "backup", new, *where))
    one, two = (text.partition("identity ")[2].partition(",")[0] for text in said)
    assert one and two and one != two, said
    with new:
        new.await_leader(60)
        new.stop(2)
        shutil.rmtree(new.data_dir(2))
        shutil.copytree(first, new.data_dir(2))
        new.start_member(2)
        await_that(lambda: not new.is_running(2), "the member with the other cluster's folder ends")
        assert f"is of another cluster: it has identity {one}, and members [0, 1] have {two}" in new.logs(2)
        with Writer(new.ingress_endpoints, writer_id=2) as second:
            second.write(50)
            demand_agreement(new, [second, writer], [0, 1])


class Keeper:
    """`ordo backup run` as a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "ordo.cli", "backup", "run", str(folder), "--interval", "0.5", *options]
        self._log = (folder.parent / "backup.log").open("ab")
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=self._log, stderr=self._log)

    def await_position(self, position: int) -> dict[str, Any]:
        """What it says of itself once it has the log up to there, on disk."""

        def probe() -> dict[str, Any] | None:
            assert self._process.poll() is None, (self.folder.parent / "backup.log").read_text()
            found = read_json(self.folder / "status.json")
            return found if found.get("position", -1) >= position else None

        return await_value(probe, f"the log of the backup up to {position}")

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(patient(30))

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait(patient(30))
        self._log.close()


def test_it_goes_on_after_kills_of_members_and_of_itself(start_cluster: StartCluster, tmp_path: Path) -> None:
    old = start_cluster(cluster=PATIENT)
    folder = tmp_path / "backup"
    with Writer(old.ingress_endpoints, reopens=True) as writer:
        writer.write(200)
        with Keeper(folder, "--endpoints", endpoints(old)) as keeper:
            told = keeper.await_position(demand_agreement(old, [writer]).position)
            archives = {load_config(old.config_path(one)).own_member.archive: one for one in old.member_ids}
            source = next(one for address, one in archives.items() if str(told["source"]).endswith(address))
            old.kill(source)
            others = [one for one in old.member_ids if one != source]
            writer.write(200, timeout_s=60)
            told = keeper.await_position(demand_agreement(old, [writer], others).position)
            writer.write(50, timeout_s=60)
            keeper.end(signal.SIGKILL)
        writer.write(200, timeout_s=60)
        before = demand_agreement(old, [writer], others)
        with Keeper(folder) as keeper:  # it knows the members from the last time
            keeper.await_position(before.position)
            busy = ordo("backup", "verify", str(folder))
            demand_one_line(busy, 1, "another", str(folder))
            assert keeper.end(signal.SIGTERM) == 0
    found = status_of(folder)
    assert [one["start"] for one in found["log"]] == [0], "one stretch, continued"
    assert found["running"]["state"] == "stopped"
    assert ordo("backup", "verify", str(folder)).returncode == 0


def test_a_point_in_time_with_another_number_of_members(start_cluster: StartCluster, tmp_path: Path) -> None:
    """What one member of the new cluster reports of itself at the position is what the old ones did, hash for hash."""
    old = start_cluster()
    folder = tmp_path / "backup"
    with Writer(old.ingress_endpoints) as writer:
        writer.write(100)
        take_snapshot(old)
        writer.write(100)
        writer.drain()
        report_id = writer.report()
        wanted = await_agreement(old, [writer], report_id)
        time.sleep(0.05)  # cluster time has milliseconds
        writer.write(100)
        take_snapshot(old)
        back_up(old, folder)
    timestamp = next(entry.timestamp for entry in entries_of(folder) if entry.position == wanted.position)
    for name, options in (("position", (str(wanted.position),)), ("time", (str(timestamp),))):
        with LocalClusterOfOne(tmp_path / name) as new:
            said = restore(folder, new, f"--{name}", *options)
            assert f"restored to position {wanted.position}," in said
            new.start()
            new.await_leader(60)
            (found,) = await_value(lambda: reports_of(new, 0, report_id) or None, "its report")
            assert found == wanted
            with Writer(new.ingress_endpoints, writer_id=2) as second:
                second.write(10)


def entries_of(folder: Path) -> list[LogEntry]:
    """The entries of the log of a backup that nobody keeps."""
    with BackupFolder(folder, None) as backup:
        (stretch,) = backup.contents().stretches
        messages = backup.archive.reader(stretch.recording_id, None).messages()
        found = [decode_entry(message.position, message.payload) for message in messages]
    return [entry for entry in found if entry is not None]


class LocalClusterOfOne(LocalCluster):
    """One member, which is not started with the context."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(LEDGER, member_count=1, root=root, **options)

    def __enter__(self) -> LocalClusterOfOne:
        return self


def test_what_cannot_be_proven_is_refused(start_cluster: StartCluster, tmp_path: Path) -> None:
    old = start_cluster()
    folder = tmp_path / "backup"
    with Writer(old.ingress_endpoints) as writer:
        writer.write(100)
        take_snapshot(old)
        back_up(old, folder)
    entries = entries_of(folder)
    end, newest = entries[-1].position, entries[-1].timestamp
    with LocalClusterOfOne(tmp_path / "new", cluster={"app_version": 2}) as new:
        config = str(new.config_path(0))

        def refuse(status: int, *options: str, words: tuple[str, ...]) -> None:
            demand_one_line(ordo("restore", str(folder), "--config", config, *options), status, *words)
            assert not new.data_dir(0).exists()

        refuse(1, "--position", str(end + 32), words=("cannot be restored", f"0 to {end}"))
        refuse(1, "--position", str(entries[3].position + 32), words=("no record", "ends there"))
        refuse(1, "--time", str(newest), words=("cannot be restored", "newest record"))
        refuse(2, "--time", "yesterday", words=("--time", "2026-03-01T12:00:00Z"))
        refuse(2, "--time", "5", "--position", "5", words=("not both",))
        refuse(2, words=("version 2", "needs 1"))
        demand_one_line(ordo("restore", str(tmp_path), "--config", config), 2, "no backup")
        new.data_dir(0).mkdir()
        (new.data_dir(0) / "precious").touch()
        demand_one_line(ordo("restore", str(folder), "--config", config), 2, "not empty")
        assert (new.data_dir(0) / "precious").exists()
        damage_log(folder, entries[50].position)
    with LocalClusterOfOne(tmp_path / "other") as new:
        config = str(new.config_path(0))
        checked = ordo("backup", "verify", str(folder))
        assert checked.returncode == 1
        assert "DAMAGED" in checked.stdout
        demand_one_line(ordo("restore", str(folder), "--config", config), 1, "damaged")
        assert not new.data_dir(0).exists()


def damage_log(folder: Path, position: int) -> None:
    """Turns a bit of the record that begins at a position."""
    with BackupFolder(folder, None) as backup:
        (stretch,) = backup.contents().stretches
        path = folder / "archive" / segment_name(stretch.recording_id, 0)
    with path.open("r+b") as file:
        file.seek(position + 40)
        (byte,) = file.read(1)
        file.seek(position + 40)
        file.write(bytes([byte ^ 1]))


def test_log_that_was_deleted_leaves_a_gap_and_no_more(start_cluster: StartCluster, tmp_path: Path) -> None:
    old = start_cluster(**FORGETFUL)
    folder = tmp_path / "backup"
    with Writer(old.ingress_endpoints, reopens=True) as writer:
        writer.write(200)
        first = back_up(old, folder, "--segment-length", "64k")["log"][0]["end"]
        await_purge(old, writer, first + 128 * 1024)
        before = demand_agreement(old, [writer], timeout_s=90)
        found = back_up(old, folder, "--segment-length", "64k")
    assert len(found["log"]) == 2
    assert found["log"][0] == {"start": 0, "end": first}
    assert found["log"][1]["start"] > first
    old.close()
    with LocalClusterOfOne(tmp_path / "new", cluster=FORGETFUL["cluster"]) as new:
        config = str(new.config_path(0))
        within = ordo("restore", str(folder), "--config", config, "--position", str(first + 32))
        demand_one_line(within, 1, "cannot be restored", str(found["log"][1]["start"]))
        restore(folder, new)
        new.start()
        new.await_leader(60)
        with Writer(new.ingress_endpoints, writer_id=2) as second:
            second.write(10)
            assert demand_agreement(new, [second, writer]).entries == before.entries + 10


def test_a_stranger_is_told_nothing(start_cluster: StartCluster, tmp_path: Path) -> None:
    token, other = new_token(), new_token()
    tokens = [
        {"principal": "backup", "hash": hash_token(token), "roles": ["log"]},
        {"principal": "desk", "hash": hash_token(other), "roles": ["ingress", "queries", "operator"]},
    ]
    old = start_cluster(tables={"tokens": tokens})
    (tmp_path / "token").write_text(token)
    (tmp_path / "other").write_text(other)
    folder, where = tmp_path / "backup", ("--endpoints", endpoints(old), "--once", "--timeout", "30")
    demand_one_line(ordo("backup", "run", str(folder), *where), 4, "rejected", "--token-file")
    demand_one_line(ordo("backup", "run", str(folder), *where, "--token-file", str(tmp_path / "other")), 4, "role log")
    assert status_of(folder)["log"] == []
    back_up(old, folder, "--token-file", str(tmp_path / "token"))


def test_misuse_is_one_line(tmp_path: Path) -> None:
    folder = str(tmp_path / "backup")
    demand_one_line(ordo("backup", "run", folder), 2, "--endpoints")
    demand_one_line(ordo("backup", "run", folder, "--endpoints", "nowhere"), 2, "--endpoints nowhere")
    long = ("--endpoints", "127.0.0.1:9", "--segment-length")
    demand_one_line(ordo("backup", "run", folder, *long, "three"), 2, "--segment-length three")
    demand_one_line(ordo("backup", "run", folder, *long, "3m"), 2, "power of two")
    demand_one_line(ordo("backup", "status", folder), 2, "no backup")
    demand_one_line(ordo("backup", "verify", folder), 2, "no backup")
    silent = ordo(
        "backup", "run", folder, "--endpoints", "127.0.0.1:9,no.such.host.invalid:9", "--once", "--timeout", "1"
    )
    demand_one_line(silent, 1, "within 1 s")
    assert status_of(Path(folder))["running"]["state"] == "stopped"
