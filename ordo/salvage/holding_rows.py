"""A holding as JSON, so that what members on other machines have can be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ordo.cluster.module.state.folder_rows import Owner, Start
from ordo.cluster.wire.log_identity import identity_text, parse_identity
from ordo.consensus.state.distrust import Distrust
from ordo.consensus.state.messages import Lead
from ordo.runtime.errors import ConfigurationError, OrdoError
from ordo.salvage.holdings import Holding, Stretch

FORMAT = 1


def encode_holding(one: Holding) -> dict[str, object]:
    """Return a holding as what JSON can say."""
    return {
        "format": FORMAT,
        "member_id": one.member_id,
        "cluster_id": one.cluster_id,
        "owner": None if one.owner is None else list(one.owner),
        "cluster": None if one.origin is None else identity_text(one.origin),
        "voters": one.voters,
        "learners": one.learners,
        "terms": [list(row) for row in one.terms],
        "leads": {str(term_id): list(lead) for term_id, lead in one.leads.items()},
        "start_position": one.start_position,
        "end_position": one.end_position,
        "committed_position": one.committed_position,
        "timestamp_ms": one.timestamp_ms,
        "snapshots": {str(position): digest for position, digest in one.snapshots.items()},
        "distrust": int(one.distrust),
        "start": list(one.start),
        "seen_starts": {str(member_id): list(start) for member_id, start in one.seen_starts.items()},
        "seen_points": {str(member_id): list(point) for member_id, point in one.seen_points.items()},
        "damage": one.damage,
        "stretches": [list(row) for row in one.stretches],
        "successor": one.successor,
    }


def read_report(path: Path) -> list[Holding]:
    """Return the holdings in a file that `ordo cluster recover --json` wrote. Raises ConfigurationError."""
    try:
        rows = json.loads(path.read_text())["holdings"]
        return [_decode_holding(row) for row in rows]
    except OSError as error:
        raise ConfigurationError(f"--report {path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, OrdoError) as error:
        raise ConfigurationError(
            f"--report {path}: not what `ordo cluster recover --json` writes: {type(error).__name__}: {error}"
        ) from None


def _decode_holding(row: dict[str, Any]) -> Holding:
    if row["format"] != FORMAT:
        raise ConfigurationError(f"format={row['format']}, expected {FORMAT}")
    return Holding(
        member_id=int(row["member_id"]),
        cluster_id=int(row["cluster_id"]),
        owner=None if row["owner"] is None else Owner(*map(int, row["owner"])),
        origin=None if row["cluster"] is None else parse_identity(row["cluster"]),
        voters=[int(one) for one in row["voters"]],
        learners=[int(one) for one in row["learners"]],
        terms=[(int(term), int(base)) for term, base in row["terms"]],
        start_position=int(row["start_position"]),
        end_position=int(row["end_position"]),
        committed_position=int(row["committed_position"]),
        timestamp_ms=int(row["timestamp_ms"]),
        snapshots={int(position): str(digest) for position, digest in row["snapshots"].items()},
        distrust=Distrust(int(row["distrust"])),
        start=Start(*map(int, row["start"])),
        seen_starts={int(one): Start(*map(int, start)) for one, start in row["seen_starts"].items()},
        seen_points={int(one): (int(point[0]), int(point[1])) for one, point in row["seen_points"].items()},
        damage=str(row["damage"]),
        leads={int(term_id): Lead(*map(int, lead)) for term_id, lead in row.get("leads", {}).items()},
        stretches=[Stretch(int(start), int(end), str(digest)) for start, end, digest in row["stretches"]],
        successor=int(row.get("successor", 0)),
    )
