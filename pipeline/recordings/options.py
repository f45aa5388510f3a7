"""Options of the `ordo` data source, read once and checked; unknown ones are refused."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from ordo.follow.recordings.ranges import Access
from ordo.pipeline.decoding.batches import ALL_COLUMN_NAMES, ARRIVAL, KIND_NAMES, SEQUENCE
from ordo.pipeline.decoding.errors import PipelineError
from ordo.pipeline.decoding.payloads import PayloadDecoder, parse_decoder
from ordo.pipeline.nodes.node_archives import CLUSTER, is_network, parse_addresses
from ordo.pipeline.recordings.network import NetworkLog
from ordo.pipeline.recordings.object_store import parse_storage
from ordo.pipeline.recordings.predicates import INT64_MAX, Predicates, micros
from ordo.pipeline.recordings.recordings import Recording, check_one_cluster, is_copy, open_recordings

TIME_UNITS = {"millis": 0, "micros": 1, "nanos": 2}
T = TypeVar("T")
DESCRIPTIONS = {
    "path": "archive folders: one, several separated by commas, or a pattern such as /data/*/archive; copies in "
    "object storage, s3://bucket/node0; or a cluster's nodes, ordo://host:port,host:port (their archive endpoints)",
    "paths": "as Spark passes several folders of load([...])",
    "recording": "log (default), all, or recording ids separated by commas",
    "columns": "columns to build, separated by commas; default all",
    "decoder": "payloads into columns: log, sbe:<schema.xml>, protobuf:<descriptor set>:<message> or "
    "struct:<format>:<names>",
    "sequence": "true adds column sequence, the numbers of messages; false (default)",
    "arrival": "true adds column arrival_ns, when messages arrived at the leader; false (default)",
    "kinds": "kinds of record, separated by commas; default all",
    "sessions": "client session ids, separated by commas",
    "startposition": "first position: messages that end after it",
    "endposition": "last position: messages that end at or before it",
    "starttime": "ISO time, inclusive",
    "endtime": "ISO time, exclusive",
    "startingposition": "streams: earliest, latest (default) or a position",
    "maxbytespertrigger": "streams: bytes of log a batch takes at most, all recordings together",
    "maxrecordspertrigger": "streams: messages a batch takes at most, all recordings together",
    "partitions": "how many partitions to aim at; default by partitionBytes",
    "partitionbytes": "bytes of log a partition covers, default 64 MiB",
    "batchrows": "rows of one Arrow batch at most, default 32768",
    "failondataloss": "true (default) ends a query whose checkpoint or startPosition is not there any more",
    "verify": "true (default) checks every frame's checksum",
    "commit": "auto (default), recorded, a position, or a node's aeron_dir",
    "timeunit": "auto (default), millis, micros or nanos: the unit of the cluster's clock",
    "nodes": "names of the nodes, separated by commas, one for each folder; over the network one for the cluster",
    "storageoptions": 'object storage: options of its fsspec file system as JSON, such as {"anon": true}',
    "timeout": "over the network: seconds without any progress after which a read fails, default 60",
    "keyfile": "over the network: key file of the reader, where the cluster encrypts; default ORDO_KEY_FILE",
    "tokenfile": "over the network: file with a token of the role log, where the cluster authenticates; default "
    "ORDO_TOKEN_FILE",
    "trustedfile": "over the network: keys that the reader trusts; default ORDO_TRUSTED_FILE",
}


STREAM_OPTIONS = frozenset(("startingposition", "maxbytespertrigger", "maxrecordspertrigger"))
NETWORK_OPTIONS = ("timeout", "keyfile", "trustedfile", "tokenfile")


@dataclass(frozen=True)
class ReadSettings:
    """Checked options of a read."""

    directories: list[str]
    recording: str = "log"
    columns: tuple[str, ...] = ALL_COLUMN_NAMES
    predicates: Predicates = field(default_factory=Predicates)
    starting_position: str = "latest"
    bytes_per_trigger_max: int | None = None
    records_per_trigger_max: int | None = None
    partitions: int | None = None
    partition_bytes: int = 64 << 20
    batch_rows: int = 32768
    verify: bool = True
    fail_on_data_loss: bool = True
    commit: str = "auto"
    time_unit: int | None = None
    node_names: dict[str, str] | None = None
    start_position: int | None = None
    network: NetworkLog | None = None
    """Set instead of `directories` when the nodes are asked."""
    storage: Mapping[str, object] | None = None
    """Options of the file system of the copies in object storage among `directories`."""
    decoder: PayloadDecoder | None = None
    """What makes columns of payloads; `with_decoder` makes it ready, and adds these to `columns`."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ReadSettings:
        """Raise PipelineError for an unknown option or a value that is not allowed."""
        values = {name.lower(): value for name, value in given.items()}
        for name in values:
            if name not in DESCRIPTIONS:
                raise PipelineError(f"unknown option {name!r}; allowed are {', '.join(sorted(DESCRIPTIONS))}")
        network = _network(values)
        directories = _directories(values) if network is None else []
        storage = parse_storage(values["storageoptions"]) if "storageoptions" in values else None
        if storage is not None and not any(is_copy(directory) for directory in directories):
            raise PipelineError("option storageOptions is for object storage: load('s3://bucket/node0')")
        nodes = _names(values, "nodes")
        if network is None and nodes and len(nodes) != len(directories):
            raise PipelineError(f"option nodes names {len(nodes)} nodes for {len(directories)} folders; one each")
        options = cls(
            directories=directories,
            recording=values.get("recording", "log"),
            columns=_columns(values),
            predicates=_predicates(values),
            starting_position=_starting(values),
            bytes_per_trigger_max=_integer(values, "maxbytespertrigger", 32),
            records_per_trigger_max=_integer(values, "maxrecordspertrigger", 1),
            partitions=_integer(values, "partitions", 1),
            partition_bytes=_integer(values, "partitionbytes", 4096) or cls.partition_bytes,
            batch_rows=_integer(values, "batchrows", 1) or cls.batch_rows,
            verify=_choice(values, "verify", {"true": True, "false": False}, True),
            fail_on_data_loss=_choice(values, "failondataloss", {"true": True, "false": False}, True),
            commit=values.get("commit", "auto"),
            time_unit=_choice(values, "timeunit", {"auto": None, **TIME_UNITS}, None),
            node_names=dict(zip(directories, nodes, strict=True)) if nodes and network is None else None,
            start_position=_integer(values, "startposition", 0),
            network=network,
            storage=storage,
            decoder=parse_decoder(values["decoder"]) if "decoder" in values else None,
        )
        if options.bytes_per_trigger_max and options.records_per_trigger_max:
            raise PipelineError("options maxBytesPerTrigger and maxRecordsPerTrigger exclude each other; give one")
        return options

    def open_recordings(self) -> list[Recording]:
        """Return the recordings that folders and copies have of what is asked for.

        Raises OtherClusterError for folders of two clusters.
        """
        found = open_recordings(self.directories, self.recording, self.commit, self.node_names, self.storage)
        if len(self.directories) > 1:
            check_one_cluster(found)
        return found


def _network(values: dict[str, str]) -> NetworkLog | None:
    """Where the nodes are, if the path says so. Raises PipelineError for what does not fit it, or fits only it."""
    paths: list[str] = json.loads(values["paths"]) if "paths" in values else [values.get("path", "")]
    if not any(is_network(path) for path in paths):
        for name in NETWORK_OPTIONS:
            if name in values:
                raise PipelineError(f"option {name!r} is for reading over the network: load('ordo://host:port,...')")
        return None
    if not all(is_network(path) for path in paths):
        raise PipelineError(f"{','.join(paths)!r}: give addresses or folders, not both")
    addresses = parse_addresses(",".join(path.strip() for path in paths))
    if values.get("recording", "log") != "log":
        raise PipelineError(f"option recording={values['recording']!r}: nodes give the log only; leave it out")
    if "verify" in values:
        raise PipelineError("option verify is for folders: nodes check every frame that they send")
    commit = values.get("commit", "auto")
    if commit != "auto" and not commit.isdigit():
        raise PipelineError(f"option commit={commit!r}: of nodes only auto or a position; they know what is committed")
    nodes = _names(values, "nodes")
    if len(nodes) > 1:
        raise PipelineError(f"option nodes names {len(nodes)} nodes; over the network it names the cluster, once")
    access = Access(
        values.get("keyfile", ""),
        values.get("trustedfile", ""),
        float(_integer(values, "timeout", 1) or 60),
        values.get("tokenfile", ""),
    )
    lenient = not _choice(values, "failondataloss", {"true": True, "false": False}, True)
    return NetworkLog(addresses, nodes[0] if nodes else CLUSTER, access, lenient)


def _directories(values: dict[str, str]) -> list[str]:
    """Return the folders that an option names; a folder of exactly this name is meant before a pattern or a list is."""
    given = values.get("path", "")
    paths: list[str] = [given] if os.path.isdir(given.removeprefix("file:")) else given.split(",")
    if "paths" in values:
        paths = json.loads(values["paths"])
    found: list[str] = []
    for path in (path if os.path.isdir(path) else path.strip() for path in paths):
        if is_copy(path):
            found.append(path.rstrip("/"))
            continue
        path = path.removeprefix("file:")
        is_pattern = glob.has_magic(path) and not os.path.isdir(path)
        matches = sorted(glob.glob(path)) if is_pattern else [path]
        found += [match for match in matches if match and os.path.isdir(match)]
        if path and not matches:
            raise PipelineError(f"no folder matches {path!r}; give archive folders such as /data/node0/archive")
        if path and not is_pattern and not os.path.isdir(path):
            raise PipelineError(f"no folder {path!r}; give archive folders such as /data/node0/archive")
    if not found:
        raise PipelineError(
            "no folder given; use load('/data/node0/archive'), or CREATE TABLE ... USING ordo LOCATION '...' without a "
            "list of columns: option columns chooses them"
        )
    return found


def _names(values: dict[str, str], name: str) -> list[str]:
    return [part.strip() for part in values.get(name, "").split(",") if part.strip()]


def _subset(values: dict[str, str], name: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    wanted = _names(values, name)
    for part in wanted:
        if part not in allowed:
            raise PipelineError(f"option {name}: unknown {part!r}; allowed are {', '.join(allowed)}")
    return tuple(dict.fromkeys(wanted))


def _columns(values: dict[str, str]) -> tuple[str, ...]:
    columns = _subset(values, "columns", (*ALL_COLUMN_NAMES, SEQUENCE, ARRIVAL)) or ALL_COLUMN_NAMES
    for option, column in (("sequence", SEQUENCE), ("arrival", ARRIVAL)):
        if _choice(values, option, {"true": True, "false": False}, False) and column not in columns:
            columns = (*columns, column)
    return columns


def _integer(values: dict[str, str], name: str, minimum: int) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise PipelineError(f"option {name}={text!r} must be a whole number, {minimum} or more")
    return number


def _choice(values: dict[str, str], name: str, allowed: dict[str, T], default: T) -> T:
    text = values.get(name)
    if text is None:
        return default
    if text.lower() not in allowed:
        raise PipelineError(f"option {name}={text!r}: allowed are {', '.join(allowed)}")
    return allowed[text.lower()]


def _starting(values: dict[str, str]) -> str:
    text = values.get("startingposition", "latest").lower()
    if text not in ("earliest", "latest") and not text.isdigit():
        raise PipelineError(f"option startingPosition={text!r}: allowed are earliest, latest, or a position")
    return text


def _moment(values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        return micros(datetime.fromisoformat(text))
    except ValueError:
        raise PipelineError(f"option {name}={text!r} must be an ISO time such as 2026-01-31T12:00:00Z") from None


def _predicates(values: dict[str, str]) -> Predicates:
    chosen = Predicates()
    start, end = _integer(values, "startposition", 0), _integer(values, "endposition", 0)
    if start is not None:
        chosen = chosen.narrowed("position", start + 1, INT64_MAX)
    if end is not None:
        chosen = chosen.narrowed("position", 0, end)
    begin, until = _moment(values, "starttime"), _moment(values, "endtime")
    if begin is not None:
        chosen = chosen.narrowed("timestamp", begin, INT64_MAX)
    if until is not None:
        chosen = chosen.narrowed("timestamp", -INT64_MAX, until - 1)
    kinds = _subset(values, "kinds", KIND_NAMES)
    if kinds:
        chosen = chosen.among("kind", kinds)
    sessions = _names(values, "sessions")
    if sessions:
        try:
            chosen = chosen.among("session_id", [int(part) for part in sessions])
        except ValueError:
            raise PipelineError(f"option sessions={values['sessions']!r} must be whole numbers with commas") from None
    return chosen
