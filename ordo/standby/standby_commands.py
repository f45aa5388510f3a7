"""`ordo standby run | status | promote | switch | rejoin`."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ordo.runtime.errors import ClusterError, OrdoError, StorageInUseError

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings
    from ordo.standby.promotion import Promotion
    from ordo.standby.rejoin import Rejoined

CONFIG = Annotated[Path, typer.Option(help="node.toml of the standby, which names it alone in [[members]]")]
JSON = Annotated[bool, typer.Option("--json", help="print one JSON object")]
POLL_S = 0.02

standby_app = typer.Typer(
    name="standby",
    help="Follow a cluster from another place, and become a cluster when it is gone.",
    no_args_is_help=True,
)


@standby_app.command("run")
def run_standby(
    config: CONFIG,
    endpoints: Annotated[
        str | None,
        typer.Option(help="HOST:PORT,... of the ingress of members, or of another standby; default those of before"),
    ] = None,
    service: Annotated[
        list[str] | None, typer.Option(help="the service, module:Class; once for each of several services")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="file with a token that has the role log, where the cluster has [[tokens]]")
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, help="seconds after which members are asked who belongs to the cluster")
    ] = 10.0,
    die_with_parent: Annotated[
        bool, typer.Option("--die-with-parent", help="stop when the process that started this one is gone")
    ] = False,
) -> None:
    """Follow a cluster's committed log and run the service over it, until SIGTERM or SIGINT.

    After `ordo standby promote` the same process is the one node of a cluster of its own.
    """
    from ordo.backup.folder import CLUSTER, read_json
    from ordo.backup.follow import demand_addresses
    from ordo.cluster.client.connection.endpoints import parse_list
    from ordo.cluster.node.node import run_node
    from ordo.cluster.settings.config import load_config
    from ordo.cluster.settings.log_settings import apply_log_settings, watch_log_settings
    from ordo.runtime import children
    from ordo.runtime.reporting.logging import configure_program, get_logger
    from ordo.runtime.security.credentials import credentials_from_file
    from ordo.standby.feed import Primary
    from ordo.standby.folder import demand_alone
    from ordo.standby.lives import Lives

    configure_program()
    if die_with_parent and not children.die_with_parent(os.getppid(), signal.SIGTERM):
        raise typer.Exit(1)
    loaded = load_config(config)
    apply_log_settings(loaded)
    watch_log_settings(lambda: load_config(config))
    demand_alone(loaded)
    kept = read_json(loaded.node.data_dir / CLUSTER).get("endpoints", ())
    addresses = parse_list(endpoints) if endpoints else list(kept)
    demand_addresses(addresses)
    primary = Primary(
        addresses,
        b"" if token_file is None else credentials_from_file(token_file)(),
        interval,
        lambda text: get_logger().info("standby", text=text),
    )
    raise typer.Exit(run_node(loaded, service or (), Lives(primary).next_life))


@standby_app.command()
def status(config: CONFIG, as_json: JSON = False) -> None:
    """Show how far a standby is, and what would be lost if its primary ended now."""
    from ordo.cluster.settings.config import load_config
    from ordo.standby.report import describe_lines, describe_standby

    found = describe_standby(load_config(config))
    print(json.dumps(found, indent=1) if as_json else "\n".join(describe_lines(found)))


@standby_app.command()
def promote(
    config: CONFIG,
    although_alive: Annotated[
        bool,
        typer.Option("--although-alive", help="yes, the primary answers: who goes on using it is in another cluster"),
    ] = False,
    others: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT,... of the ingress of the other standbys of the same primary, which are asked first"
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="file with a token that has the role log, where --others have [[tokens]]")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="give up waiting after this many seconds")] = 60.0,
    as_json: JSON = False,
) -> None:
    """Make a standby a cluster of one, which goes on behind the last record that it has of its primary's log.

    Prints the exact position up to which it has that log, and what cannot be known. The process of `ordo standby run`
    carries it out; where none runs, this command does, and `ordo standby run` or `ordo node` starts the cluster.

    Exit status: 1 where it is refused: the primary was heard within three seconds, the standby has no log yet, or one
    of --others has more of it, was or is being promoted, still hears the primary, or does not answer.
    """
    from ordo.cluster.client.connection.endpoints import parse_list
    from ordo.cluster.settings.config import load_config
    from ordo.runtime.security.credentials import credentials_from_file
    from ordo.standby.others import choosing

    loaded = load_config(config)
    asked = [] if others is None else parse_list(others, "--others")
    credentials = b"" if token_file is None else credentials_from_file(token_file)()
    if (done := _find_done(loaded, although_alive)) is None:
        with choosing(loaded, asked, credentials, although_alive=although_alive):
            done = _order(loaded, although_alive, timeout)
    print(json.dumps(done.describe(), indent=1) if as_json else "\n".join(done.lines()))


@standby_app.command()
def switch(
    config: CONFIG,
    endpoints: Annotated[
        str | None, typer.Option(help="HOST:PORT,... of the primary's ingress; default those that the standby knows")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="file with a token of the primary that has the role operator")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="give up waiting for one step after this many seconds")] = 30.0,
    as_json: JSON = False,
) -> None:
    """Have a primary that is well hand over to its standby, whose process runs: nothing is lost.

    The primary is suspended, the standby reaches the end of its log, the log ends for the standby to go on, the standby
    is promoted, and the primary's members end. If a step before the log's end fails, the primary goes on as before.
    Given again, the command goes on with what was begun.

    Exit status: 1 where it is refused, or was given up; 3 where the primary has no quorum, or it is not known what has
    come of it: give it again.
    """
    from ordo.cluster.settings.config import load_config
    from ordo.standby.switch import reach_primary, switch_over

    loaded = load_config(config)
    with reach_primary(loaded, endpoints, token_file) as cluster:
        done = switch_over(loaded, cluster, timeout, lambda text: typer.echo(text, err=True))
    print(json.dumps(done.describe(), indent=1) if as_json else "\n".join(done.lines()))


@standby_app.command()
def rejoin(
    config: CONFIG,
    endpoints: Annotated[str, typer.Option(help="HOST:PORT,... of the ingress of the cluster that went on")],
    drop: Annotated[
        int | None,
        typer.Option(min=0, metavar="COUNT", help="drop the records that the cluster has not; exactly this many"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="file with a token that has the role log, where the cluster has [[tokens]]")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="give up when nothing has been answered for this many seconds")
    ] = 30.0,
    as_json: JSON = False,
) -> None:
    """Make the folder of a former primary, which does not run, that of a standby of the cluster that went on.

    Compares both logs, prints the records that the folder has and the cluster has not, and keeps them as an archive
    beside the log. They are dropped from the log only with --drop and their exact count. Nothing that both have is
    copied again. Ended before its end, the same command goes on.

    Exit status: 1 where it is refused: there are such records and no --drop, or another count, a process has the
    folder, or the cluster is not one that went on with its log.
    """
    from ordo.cluster.client.connection.endpoints import parse_list
    from ordo.cluster.settings.config import load_config
    from ordo.standby.rejoin import find_rejoined

    loaded, addresses = load_config(config), parse_list(endpoints)
    done = find_rejoined(loaded, addresses) or _rejoin(loaded, addresses, drop, token_file, timeout, as_json)
    print(json.dumps(done._asdict(), indent=1) if as_json else "\n".join(done.lines()))


def _rejoin(
    config: NodeSettings,
    addresses: list[str],
    drop: int | None,
    token_file: Path | None,
    timeout_s: float,
    as_json: bool,
) -> Rejoined:
    """Compare, keep and carry it out, or go on with what was begun. Raises OrdoError where it is refused."""
    from ordo.archive.store.lmdb_store import open_lmdb
    from ordo.runtime.io.storage import FileStorage
    from ordo.runtime.security.credentials import credentials_from_file
    from ordo.standby.rejoin import compare_folder, find_refusal, finish, is_begun
    from ordo.standby.rejoin import rejoin as carry_out
    from ordo.standby.successor_log import SuccessorLog
    from ordo.transport.secure.settings import Encryption

    is_marked = is_begun(config)  # before the lock: it says what is missing where there is no folder
    with FileStorage(open_lmdb).lock_directory(str(config.cluster_dir)):
        if is_marked:
            return finish(config, addresses)
        encryption, keys = config.encryption, None
        if encryption.is_on:
            keys = Encryption(str(encryption.key_file), str(encryption.trusted_file))
        credentials = b"" if token_file is None else credentials_from_file(token_file)()
        with SuccessorLog(addresses, credentials, keys, timeout_s) as successor:
            findings, found, kept = compare_folder(config, successor)
        refusal = find_refusal(found, drop)
        if refusal or not as_json:
            print(json.dumps(found.describe(kept), indent=1) if as_json else "\n".join(found.lines(kept)), flush=True)
        if refusal:
            raise ClusterError(refusal)
        return carry_out(config, addresses, findings, found, kept)


def _find_done(config: NodeSettings, although_alive: bool) -> Promotion | None:
    """Return the promotion that a command was killed in; None where it can be ordered. Raises OrdoError otherwise."""
    from ordo.standby.folder import ORDER, demand_alone, has_log, is_promoted
    from ordo.standby.promotion import complete
    from ordo.standby.report import describe_standby, find_life

    demand_alone(config)
    directory, found = config.node.data_dir, describe_standby(config)
    if is_promoted(config):
        if (directory / ORDER).exists() and (done := complete(config)) is not None:
            return done  # a crash came between this promotion and its report
        position = "" if found["promotion"] is None else f" behind position={found['promotion']['position']}"
        raise ClusterError(f"{directory}: this standby was promoted before{position}; see `ordo standby status`")
    if not has_log(config):
        raise ClusterError(f"{directory}: this standby has no log yet with which a cluster could go on")
    if not although_alive and (answered := find_life(found)):
        raise ClusterError(
            f"the primary {answered}: it is not gone, and there would be two clusters. Stop it first, or give "
            "--although-alive"
        )
    return None


def _order(config: NodeSettings, although_alive: bool, timeout_s: float) -> Promotion:
    """Have who has the folder carry it out. Raises OrdoError where it is refused, or takes too long."""
    from ordo.archive.store.lmdb_store import open_lmdb
    from ordo.backup.folder import write_json
    from ordo.runtime.io.storage import FileStorage
    from ordo.standby.folder import ORDER, is_promoted
    from ordo.standby.promotion import promote as carry_out
    from ordo.standby.promotion import read_promotion

    directory = config.node.data_dir
    write_json(directory / ORDER, {"although_alive": although_alive})
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            with FileStorage(open_lmdb).lock_directory(str(config.cluster_dir)):
                if not is_promoted(config):
                    return carry_out(config)
        except StorageInUseError:
            pass  # the process that has the folder carries it out
        if is_promoted(config) and (done := read_promotion(config)) is not None:
            return done
        if not is_promoted(config) and not (directory / ORDER).exists():
            raise ClusterError(f"the process that has {directory} could not carry out the promotion: see its log")
        time.sleep(POLL_S)
    raise OrdoError(
        f"the process that has {directory} did not carry out the promotion within {timeout_s:g} s; the order stands, "
        f"until {ORDER} is removed from there: see its log"
    )
