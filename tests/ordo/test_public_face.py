"""What `ordo` gives its users: these names, nothing else, and nothing of what they inherit from inside."""

import subprocess
import sys
from pathlib import Path

import pytest

import ordo
import ordo.errors
import ordo.runtime.errors
import ordo.testing
from ordo.cluster.container.service_loader import load_service
from ordo.runtime.errors import ConfigurationError, OrdoError

PUBLIC = {
    *("Answer", "ArchiveClient", "ArchiveClientSettings", "AsyncClusterClient", "ClientSession", "ClientSettings"),
    *("ClientState", "CloseReason", "Cluster", "ClusterClient", "ClusteredService", "EntryKind", "EventCode", "Header"),
    *(
        "LogEntry",
        "LogReader",
        "MessageRun",
        "NativeClusteredService",
        "NativeSession",
        "NewLeadershipTermEvent",
        "OfferResult",
    ),
    *("OrdoError", "Payload", "PendingQuery", "PendingRequest", "QueryReply", "RecordedMessage"),
    *("RecordingDescriptor", "RecordingSignal", "Reject", "ReplayStream", "Role", "ServiceMessage", "SignalEvent"),
    *("AtSequence", "AtTime"),
    *("LogSchemas", "schemas_of"),
    *("Acknowledged", "ClientEvent", "HandedOver", "Unsequenced", "endpoints_from_dns", "endpoints_from_file"),
    *(
        "AsyncConsumer",
        "AsyncSharedConsumer",
        "ConsumerOrders",
        "Delivery",
        "Ordering",
        "SequenceFilter",
        "SharedConsumer",
    ),
    *("AsyncArchiveClient", "AsyncPersistentSubscription", "AsyncReplayStream", "PersistentSubscription"),
    *("AsyncFeedReader", "AsyncPendingRequest", "FeedMessage", "FeedReader"),
    *("Request", "TypedService", "decode", "encode", "handles", "message"),
    *("Composition", "Consumer", "SnapshotReader", "SnapshotWriter", "TimeUnit", "Topics", "Tracing", "__version__"),
    *("Authenticator", "Right", "SessionProxy", "credentials_from_environment", "credentials_from_file"),
}


def test_the_exported_names_are_these() -> None:
    assert set(ordo.__all__) == PUBLIC
    assert all(hasattr(ordo, name) for name in PUBLIC)
    assert all(hasattr(ordo.testing, name) for name in ordo.testing.__all__)


def test_every_error_is_exported() -> None:
    tree = {
        name
        for name, value in vars(ordo.runtime.errors).items()
        if isinstance(value, type) and value.__module__ == "ordo.runtime.errors"
    }
    assert set(ordo.errors.__all__) == tree
    assert issubclass(ordo.errors.ClusterError, OrdoError)


def test_a_client_shows_what_is_its_users() -> None:
    shown = {name for name in dir(ordo.ClusterClient) if not name.startswith("_")}
    assert shown == {
        *("close", "descriptor", "flush", "has_unsent_requests", "identity", "is_closed", "is_connected", "native"),
        *("outstanding_requests", "park", "poll", "query", "recovered_requests", "request", "request_many"),
        *("pending_requests", "request_stream"),
        *("request_trouble", "send", "start_query", "submit", "subscribe", "unsent"),
        *("await_sequenced", "demand_acknowledgements", "executed", "is_all_known", "last_number", "sequenced"),
        *("sequenced_position", "state", "session_id", "leadership_term_id", "leader_member_id", "ingress_endpoints"),
        "ingress_trouble",
    }


def test_the_version_is_shown() -> None:
    command = [sys.executable, "-P", "-m", "ordo.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"ordo {ordo.__version__}\n"


@pytest.mark.parametrize("name", ["ordo.py", "ordo/__init__.py"])
def test_a_file_with_the_name_of_a_package_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    monkeypatch.chdir(tmp_path)
    shown = path.parent if path.name == "__init__.py" else path
    with pytest.raises(ConfigurationError, match=f"{shown} has the name of Ordo's own package"):
        load_service("mine:Service")


def test_a_node_names_the_users_file_that_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "ordo.py").write_text("raise RuntimeError('never imported')\n")
    (tmp_path / "mine.py").write_text("from ordo import ClusteredService\n\nclass Mine(ClusteredService): ...\n")
    config = tmp_path / "node.toml"
    config.write_text(
        f'[node]\nmember_id = 0\ndata_dir = "{tmp_path}/data"\n[[members]]\nid = 0\nhost = "127.0.0.1"\nport = 20000\n'
    )
    command = [sys.executable, "-P", "-m", "ordo.cli", "node", "--config", str(config), "--service", "mine:Mine"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        f"ordo: {tmp_path}/ordo.py has the name of Ordo's own package, which must not be: rename it\n",
    )
