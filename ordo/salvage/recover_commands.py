"""`ordo cluster recover`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ordo.runtime.errors import ClusterError, ConfigurationError

SILENCE_S = 3.0
"""So long nothing may be heard of a member that is taken as gone."""

if TYPE_CHECKING:
    from ordo.cluster.settings.config import NodeSettings
    from ordo.cluster.wire.configuration import NamedConfiguration
    from ordo.cluster.wire.members import Member
    from ordo.salvage.comparison import Comparison


def recover(
    config: Annotated[
        list[Path], typer.Option(help="node.toml of a stopped member whose folder is on this machine; once for each")
    ],
    report: Annotated[
        list[Path] | None,
        typer.Option(help="what this command printed with --json on another machine; once for each"),
    ] = None,
    from_member: Annotated[
        int | None, typer.Option("--from", metavar="ID", help="go on with this member's log, by itself")
    ] = None,
    accepted: Annotated[
        bool,
        typer.Option(
            "--i-accept-loss", help="yes, what was acknowledged may be lost, and the others are gone for good"
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, for --report on another machine")] = False,
) -> None:
    """Compare what is left of a cluster whose majority is gone for good; with --from, go on with one member's log.

    All members must be stopped. Without --from nothing is changed: it says what each member has, which has the most,
    and what may be lost. With --from and --i-accept-loss that member becomes the only voter of a cluster of its own.

    Exit status: 1 where it is refused: a quorum can be had, a member runs, another member has more, or a folder is of
    another cluster or member, or an older copy.
    """
    if (from_member is not None) != accepted:
        raise ConfigurationError(
            "recover: give --from ID together with --i-accept-loss to go on with what is left, or neither to compare"
        )
    from ordo.cluster.settings.config import load_config
    from ordo.salvage.comparison import compare
    from ordo.salvage.holding_rows import encode_holding, read_report
    from ordo.salvage.holdings import examine

    found = {one.node.member_id: (one, examine(one)) for one in map(load_config, config)}
    if len(found) < len(config):
        raise ConfigurationError("--config: the files are of one member; give one of each")
    holdings = [one.holding for _, one in found.values()]
    comparison = compare([*holdings, *(one for path in report or () for one in read_report(path))])
    if from_member is None:
        if as_json:
            said = [encode_holding(one) for one in comparison.holdings]
            print(json.dumps({"holdings": said, "comparison": comparison.describe()}, indent=1))
        else:
            print("\n".join(comparison.lines()))
        return
    if from_member not in found:
        raise ConfigurationError(f"--from {from_member}: give the node.toml of this member with --config")
    _go_on(*found[from_member], comparison, as_json)


def _go_on(config: NodeSettings, findings: object, comparison: Comparison, as_json: bool) -> None:
    from ordo.salvage.comparison import find_refusal
    from ordo.salvage.holdings import Findings
    from ordo.salvage.new_epoch import begin_epoch

    assert isinstance(findings, Findings)
    if refusal := find_refusal(comparison, config.node.member_id):
        raise ClusterError(refusal)
    _demand_silence(endpoints_to_ask(config.member_list, findings.survey.configuration, comparison))
    done = begin_epoch(config, findings, comparison)
    if as_json:
        print(json.dumps({"comparison": comparison.describe(), "recovered": done.describe()}, indent=1))
        return
    print("\n".join([*comparison.lines(), *done.lines()]))


def endpoints_to_ask(
    configured: Iterable[Member], logged: NamedConfiguration | None, comparison: Comparison
) -> list[str]:
    """Return the ingress of each member that the file or the log names, and that is not compared."""
    compared = {one.member_id for one in comparison.holdings}
    members = [*configured, *(() if logged is None else (*logged.voters, *logged.learners))]
    return sorted({one.ingress for one in members if one.id not in compared})


def _demand_silence(endpoints: Sequence[str]) -> None:
    """Refuse while one of the members answers that are taken as gone: it may be one of a quorum."""
    from ordo.cluster.admin.remote import RemoteCluster
    from ordo.runtime.errors import ClusterTimeoutError

    if not endpoints:
        return
    with RemoteCluster(",".join(endpoints)) as cluster:
        for endpoint, look in cluster.look(SILENCE_S).items():
            if not isinstance(look, ClusterTimeoutError):
                raise ClusterError(
                    f"the member at {endpoint} answers: it is not gone. Stop it and compare its folder too, or let it "
                    "go on with the others"
                )
