"""What the `ordo` command does with a running node, through its shared memory: counters and control streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ordo.cluster.admin import orders
from ordo.cluster.monitoring.counter_values import NOT_THERE, NodeStatus, status_of
from ordo.cluster.monitoring.counters import is_alive, open_cnc, read_counters
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.counters.component_errors import read_component_errors
from ordo.cluster.wire.counters.counter_types import CounterType, find_counter, is_of_cluster
from ordo.cluster.wire.counters.mark_file import MODULE_MARK_FILE_NAME
from ordo.cluster.wire.streams import CONTROL_CHANNEL, TO_MODULE_STREAM_ID, TO_SERVICE_STREAM_ID, local_stream
from ordo.runtime.errors import StorageMissingError
from ordo.runtime.native.clock import SystemClock
from ordo.runtime.native.counters import CounterDescriptor, CountersReader
from ordo.runtime.native.memory import FileMemoryProvider
from ordo.runtime.sbe import Message
from ordo.transport.client.client import TransportClient

if TYPE_CHECKING:
    from ordo.cluster.admin.member_details import HeldError
    from ordo.cluster.module.state.state_store import Skip
    from ordo.cluster.settings.config import NodeSettings

ALIVE_TIMEOUT_MS = 2_000
GONE_AFTER_MS = 300
"""Three times the interval in which a node's own driver shows a heartbeat."""
_NODE_TYPES = frozenset(CounterType) - {CounterType.RECORDING_POSITION, CounterType.DRIVER_PARK_FLAG}


def node_status(config: NodeSettings) -> NodeStatus:
    """Return the status of this configuration's node. Raises StorageMissingError if it does not run."""
    counters = running_counters(config)

    def value(counter_type: int) -> int:
        values = [counter.value for counter in counters if counter.type_id == counter_type]
        if counter_type == CounterType.SERVICE_POSITION:  # of several services the slowest one counts
            return min(values, default=NOT_THERE)
        return values[0] if values else NOT_THERE

    sessions = sum(counter.type_id == CounterType.SESSION for counter in counters)
    return status_of(config.node.member_id, value, sessions)


def running_counters(config: NodeSettings) -> list[CounterDescriptor]:
    """All counters of a node that is alive; raises StorageMissingError when it is not."""
    _require_alive(config)
    return _counters_of(config)


class LocalMember:
    """A node of this machine, by its shared memory; a MemberAccess."""

    elsewhere = "use the configuration of the leader"

    def __init__(self, config: NodeSettings) -> None:
        self._config = config
        self.counters = LocalCounters(config)
        self.notes = LocalNotes(config)

    @property
    def member_id(self) -> int:
        return self._config.node.member_id

    def ask(self, question: Message, values: dict[str, Any], answer: Message, timeout_s: float) -> Any:
        return ask(self._config, question, values, answer, timeout_s)

    def is_running(self) -> bool:
        return is_running(self._config)


class LocalCounters:
    """The counters of a node of this machine, in its driver's folder."""

    def __init__(self, config: NodeSettings) -> None:
        self._config = config

    def value(self, counter_type: CounterType) -> int:
        try:
            return _counter(self._config, counter_type)
        except StorageMissingError:
            _require_alive(self._config)
            raise

    def set_toggle(self, wanted: int, expected: int) -> int:
        return _set_toggle(self._config, wanted, expected)


class LocalNotes:
    """What the configuration of a node of this machine says, and what it has noted in its cluster folder."""

    def __init__(self, config: NodeSettings) -> None:
        self._config = config

    def list_others(self) -> list[int]:
        own_id = self._config.node.member_id
        return [member.id for member in self._config.member_list if member.id != own_id]

    def list_errors(self) -> list[HeldError]:
        from ordo.cluster.admin.member_details import HeldError

        path = str(self._config.cluster_dir / MODULE_MARK_FILE_NAME)
        found = sorted(read_component_errors(FileMemoryProvider(), path), key=lambda one: one.last_ms)
        return [HeldError(one.observation_count, one.last_ms, one.text) for one in found]

    def list_skipped(self) -> tuple[list[Skip], list[int]]:
        from ordo.cluster.admin.stored_skips import list_skipped

        return list_skipped(self._config)


def ask(config: NodeSettings, question: Message, values: dict[str, Any], answer: Message, timeout_s: float) -> Any:
    """Ask a running node over its control streams, and return the values of the answer."""
    member_id = config.node.member_id
    _require_alive(config)
    answers: list[Any] = []
    clock = SystemClock()
    with TransportClient(str(config.aeron_dir), clock=clock, memory=FileMemoryProvider(), name="ordo") as client:
        correlation_id = client.next_correlation_id()

        def on_message(message: bytes, _header: object) -> None:
            found = ordo_codecs.decode_any(message)
            if found is not None and found[0] is answer and found[1].correlation_id == correlation_id:
                answers.append(found[1])

        subscription = client.add_subscription(
            CONTROL_CHANNEL, local_stream(TO_SERVICE_STREAM_ID, config.cluster.cluster_id)
        )
        publication = client.add_exclusive_publication(
            CONTROL_CHANNEL, local_stream(TO_MODULE_STREAM_ID, config.cluster.cluster_id)
        )
        encoded = question.encode(correlation_id=correlation_id, **values)

        def is_sent() -> bool:
            client.do_work(clock.now())
            return subscription.is_connected and publication.offer(encoded) > 0

        def is_answered() -> bool:
            client.do_work(clock.now())
            subscription.poll_messages(on_message)
            return bool(answers)

        orders.await_done(is_sent, f"member {member_id} did not take the request", timeout_s)
        orders.await_done(is_answered, f"member {member_id} did not answer", timeout_s)
    return answers[0]


def _set_toggle(config: NodeSettings, wanted: int, expected: int) -> int:
    """Set counter 202 if it is as expected; return its previous value, or NOT_THERE."""
    _require_alive(config)
    with open_cnc(config.aeron_dir, writable=True) as cnc:
        counters = CountersReader(cnc.counters_metadata, cnc.counters_values)
        counter_id = find_counter(counters, CounterType.CONTROL_TOGGLE, config.cluster.cluster_id)
        if counter_id < 0:
            return NOT_THERE
        toggle = counters.counter(counter_id)
        return expected if toggle.compare_and_set(expected, wanted) else int(toggle.value)


def _counter(config: NodeSettings, counter_type: CounterType) -> int:
    return next((one.value for one in _counters_of(config) if one.type_id == counter_type), NOT_THERE)


def _counters_of(config: NodeSettings) -> list[CounterDescriptor]:
    """Return all counters of the node's own driver, or those of the node's cluster in a shared one."""
    counters = read_counters(config.aeron_dir)
    if config.node.own_driver:
        return counters
    return [one for one in counters if one.type_id in _NODE_TYPES and is_of_cluster(one, config.cluster.cluster_id)]


def _require_alive(config: NodeSettings) -> None:
    if not is_running(config):
        raise StorageMissingError(
            f"member {config.node.member_id} is not running on this machine: no live node in {config.aeron_dir}"
        )


def is_running(config: NodeSettings) -> bool:
    """Return whether the node lives.

    Its driver shows a heartbeat; one that is shared also holds the node's counters, until it misses the node.
    """
    gone_after_ms = GONE_AFTER_MS if config.node.own_driver else None
    if not is_alive(config.aeron_dir, _now_ms(), ALIVE_TIMEOUT_MS, gone_after_ms):
        return False
    return config.node.own_driver or _counter(config, CounterType.MODULE_STATE) != NOT_THERE


def _now_ms() -> int:
    return SystemClock().epoch_ms()
