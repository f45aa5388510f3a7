"""Configuration of the media driver. Defaults follow defaults.md, but the counters buffers are kept small."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, fields

from ordo.runtime.agents.idle import IDLE_STRATEGIES
from ordo.runtime.errors import ConfigurationError
from ordo.runtime.native.file_access import ACCESSES
from ordo.runtime.settings.kinds import check_kinds
from ordo.runtime.user import user_name

_MS = 1_000_000
_S = 1_000_000_000
ENCRYPTED_MTU_MAX = 65472
"""Keys and tag take 32 bytes of each datagram."""
THREADING_MODES = ("invoker", "shared", "shared-network", "dedicated")


def default_directory() -> str:
    """Return the folder of the driver that this user's clients use by default."""
    parent = "/dev/shm" if os.path.isdir("/dev/shm") else os.environ.get("TMPDIR", "/tmp")
    return os.path.join(parent, f"aeron-{user_name()}")


def port_range(text: str, name: str) -> range:
    """Return the ports of `low-high`. For an empty text only port 0, for which the kernel takes a free one."""
    if not text:
        return range(1)
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and 1 <= int(low) <= int(high) <= 65535):
        raise ConfigurationError(f"{name}={text!r}, must be low-high, from 1 to 65535")
    return range(int(low), int(high) + 1)


def socket_names(text: str, name: str) -> list[tuple[str, int]]:
    """Return (host, port) for each item of `host:port,...`."""
    found = []
    for entry in filter(None, text.split(",")):
        host, _, port = entry.strip().rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigurationError(f"{name}: {entry!r}, must be host:port")
        found.append((host.strip("[]"), int(port)))
    return found


def table_of_names(text: str) -> dict[str, str]:
    """Return the names of `name=address,...`, each a numeric address."""
    table = {}
    for entry in filter(None, text.split(",")):
        name, _, address = entry.partition("=")
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise ConfigurationError(f"name_table: {entry!r}, must be name=address with a numeric address") from None
        table[name] = address
    return table


_MAY_BE_NONE = ("publication_linger_timeout_ns",)
"""Times that may be 0: a publication then ends as soon as it is drained."""


@dataclass(frozen=True, eq=False, repr=False)  # which would be made at every start, and nobody calls
class MediaDriverSettings:
    """Settings of one driver; times in ns, lengths in bytes. A channel's URI parameters override the stream defaults.

    Checked when made: ConfigurationError names the setting, its value and what is allowed.
    """

    directory: str
    file_access: str = "owner"
    """Who may use the files of a driver that is a process of its own: owner, group or all."""
    delete_directory_on_start: bool = False
    delete_directory_on_shutdown: bool = True
    pid_is_local: bool = False
    """The folder is only ever used from this pid namespace: a driver whose process is gone is dead at once."""
    driver_timeout_ns: int = 10 * _S
    timer_interval_ns: int = 1 * _S
    client_liveness_timeout_ns: int = 10 * _S
    image_liveness_timeout_ns: int = 10 * _S
    publication_unblock_timeout_ns: int = 15 * _S
    publication_connection_timeout_ns: int = 5 * _S
    publication_linger_timeout_ns: int = 5 * _S
    counters_reuse_timeout_ns: int = 1 * _S
    to_driver_capacity: int = 1 << 20
    to_clients_capacity: int = 1 << 20
    counters_values_length: int = 1 << 20
    error_log_length: int = 1 << 20
    loss_report_length: int = 1 << 20
    event_log_length: int = 1 << 20
    """Room for events that `ordo trace` has not taken yet; takes memory only while somebody looks."""
    page_size: int = 4096
    term_buffer_sparse: bool = True
    reserve_memory: bool = False
    """Have each page of shared memory before it is used, so that too little of it refuses a stream or holds one up
    (never SIGBUS)."""
    term_length: int = 16 << 20
    ipc_term_length: int = 64 << 20
    publication_window: int = 0
    ipc_publication_window: int = 0
    mtu: int = 1408
    ipc_mtu: int = 1408
    receiver_window: int = 128 << 10
    congestion_control: str = "static"
    """static: receivers always offer the whole window; cubic: less after a loss, and more with time."""
    cubic_initial_rtt_ns: int = 100_000
    """How often a cubic window grows at most, and the round trip that is assumed until one was measured."""
    cubic_measures_rtt: bool = False
    cubic_tcp_friendly: bool = False
    """No smaller than TCP's own window would be after a loss."""
    socket_rcvbuf: int = 128 << 10
    socket_sndbuf: int = 0
    multicast_ttl: int = 0
    status_message_timeout_ns: int = 200 * _MS
    spies_simulate_connection: bool = False
    tether_subscriptions: bool = True
    reliable_stream: bool = True
    rejoin_stream: bool = True
    receiver_group_consideration: str = "infer"
    receiver_group_tag: int | None = None
    flow_control_group_tag: int = -1
    flow_control_group_size_min: int = 0
    flow_control_receiver_timeout_ns: int = 5 * _S
    multicast_flow_control: str = "max"
    unicast_retransmit_window_multiple: int = 16
    multicast_retransmit_window_multiple: int = 4
    reserved_session_id_low: int = -1
    reserved_session_id_high: int = 1000
    nak_unicast_delay_ns: int = 1_000
    nak_unicast_retry_delay_ratio: int = 100
    nak_multicast_group_size: int = 10
    nak_multicast_backoff_max_ns: int = 10 * _MS
    retransmit_delay_ns: int = 0
    retransmit_linger_ns: int = 10 * _MS
    max_resend: int = 16
    untethered_window_limit_timeout_ns: int = 5 * _S
    untethered_linger_timeout_ns: int | None = None
    untethered_resting_timeout_ns: int = 10 * _S
    destination_timeout_ns: int = 5 * _S
    reresolution_interval_ns: int = 1 * _S
    image_term_length_max: int = 64 << 20
    """A SETUP that names longer terms is refused. What follows bounds what strangers may cause; a source is a host."""
    images_max: int = 4096
    images_per_source_max: int = 1024
    unconfirmed_images_per_source_max: int = 256
    """Images whose sender was not heard from again 20 ms and more after its SETUP."""
    image_memory_max: int = 8 << 30
    image_memory_per_source_max: int = 2 << 30
    """Three terms an image, mapped; it takes memory as data comes."""
    setups_per_source_rate: int = 200
    """New images a second from one host, once `setups_per_source_burst` came at once."""
    setups_per_source_burst: int = 512
    pending_setups_max: int = 1024
    """Sessions without an image that one endpoint asks for their SETUP at a time."""
    counters_reserved: int | None = None
    """Counters that images leave to the driver's own clients; a quarter of all unless set."""
    stream_session_limit: int = (1 << 31) - 1
    """Images of one stream on one receive endpoint at a time; further sessions wait until one ends."""
    sender_wildcard_ports: str = ""
    """`low-high`: where a publication's socket takes its port from when the channel names none; any when empty."""
    receiver_wildcard_ports: str = ""
    """The same for subscriptions with port 0."""
    resolver_name: str = ""
    resolver_interface: str = ""
    resolver_bootstrap: str = ""
    """Names between drivers: this driver's, `host:port` to listen on, and `host:port,...` of drivers to begin with."""
    name_table: str = ""
    """`name=address,...`: names that are answered from here, before anybody is asked."""
    encryption_key_file: str = ""
    encryption_trusted_file: str = ""
    """The own key, with which datagrams are encrypted, and the keys of those who may take part (`ordo keys`)."""
    encryption_rekey_ns: int = 120 * _S
    """How long keys are used that two sockets agreed on, before they agree on others."""
    termination_allowed: bool = False
    termination_token: bytes = b""
    """The token with which a client must ask the driver to end. Empty: any will do, if ending is allowed at all."""
    threading_mode: str = "invoker"
    """invoker: its owner's thread; shared: one thread; shared-network: conductor, network; dedicated: one each."""
    conductor_idle: str = "park"
    sender_idle: str = "park"
    receiver_idle: str = "park"
    """What the thread of a part does without work; one thread of several parts goes by the sender's, or by the
    conductor's where it is the only one. The same holds for the core."""
    conductor_cpu: int | None = None
    sender_cpu: int | None = None
    receiver_cpu: int | None = None
    cpus_are_offsets: bool = False
    """The three count the cores that this process may use, from 0: those of its affinity, or of its cgroup's cpuset."""
    idle_park_max_ns: int = 1 * _MS
    """How long an idle thread rests at most. Aeron's clients wake nobody, so it is also how late their work is seen."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in _MAY_BE_NONE else 1
            if field.name.endswith("_timeout_ns") and value is not None and value < least:
                raise ConfigurationError(f"{field.name}={value}, must be {'above 0 ns' if least else '0 ns or more'}")
        self._check_order()
        self._check_encryption()
        self._check_lengths()
        self._check_bounds()
        self._check_choices()

    def _check_order(self) -> None:
        if self.timer_interval_ns <= 0:
            raise ConfigurationError(f"timer_interval_ns={self.timer_interval_ns}, must be above 0 ns")
        if not self.publication_unblock_timeout_ns > self.client_liveness_timeout_ns > self.timer_interval_ns:
            raise ConfigurationError(
                f"publication_unblock_timeout_ns={self.publication_unblock_timeout_ns} must be above "
                f"client_liveness_timeout_ns={self.client_liveness_timeout_ns}, and that above "
                f"timer_interval_ns={self.timer_interval_ns}"
            )
        if self.nak_unicast_delay_ns < 1_000:
            raise ConfigurationError(f"nak_unicast_delay_ns={self.nak_unicast_delay_ns}, must be 1000 ns or more")

    def _check_encryption(self) -> None:
        if bool(self.encryption_key_file) != bool(self.encryption_trusted_file):
            raise ConfigurationError("encryption: give key_file and trusted_file, or none; `ordo keys` makes them")
        if self.encryption_rekey_ns < _S:
            raise ConfigurationError(f"encryption_rekey_ns={self.encryption_rekey_ns}, must be 1 s or more")
        if self.encryption_key_file and self.mtu > ENCRYPTED_MTU_MAX:
            raise ConfigurationError(f"mtu={self.mtu}, must be at most {ENCRYPTED_MTU_MAX} with encryption")

    def _check_lengths(self) -> None:
        for name in (
            "to_driver_capacity",
            "to_clients_capacity",
            "event_log_length",
            "term_length",
            "ipc_term_length",
            "page_size",
        ):
            value = getattr(self, name)
            if value < 4096 or value & (value - 1):
                raise ConfigurationError(f"{name}={value}, must be a power of two")
        for name in ("term_length", "ipc_term_length"):
            if not 1 << 16 <= getattr(self, name) <= 1 << 30:
                raise ConfigurationError(f"{name}={getattr(self, name)}, must be from 65536 to 1073741824")
        for name in ("mtu", "ipc_mtu"):
            value = getattr(self, name)
            if not 32 < value <= 65504 or value % 32:
                raise ConfigurationError(f"{name}={value}, must be a multiple of 32 from 64 to 65504")
        if not 1 << 16 <= self.counters_values_length <= 500 << 20:
            raise ConfigurationError(
                f"counters_values_length={self.counters_values_length}, must be from 65536 to 524288000"
            )
        if self.receiver_window < self.mtu:
            raise ConfigurationError(
                f"receiver_window={self.receiver_window} is below mtu={self.mtu}: no frame would ever fit"
            )
        if 0 < self.socket_rcvbuf < self.receiver_window:
            raise ConfigurationError(
                f"receiver_window={self.receiver_window} is above socket_rcvbuf={self.socket_rcvbuf}: what comes would "
                "overflow it"
            )

    def _check_bounds(self) -> None:
        if not 1 << 16 <= self.image_term_length_max <= 1 << 30:
            raise ConfigurationError(
                f"image_term_length_max={self.image_term_length_max}, must be from 65536 to 1073741824"
            )
        for name in (
            "images_max",
            "images_per_source_max",
            "unconfirmed_images_per_source_max",
            "image_memory_max",
            "image_memory_per_source_max",
            "setups_per_source_burst",
            "pending_setups_max",
        ):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}={getattr(self, name)}, must be 1 or more")
        if not 1 <= self.setups_per_source_rate <= 1_000_000:
            raise ConfigurationError(f"setups_per_source_rate={self.setups_per_source_rate}, must be from 1 to 1000000")
        if self.counters_reserved is not None and self.counters_reserved < 0:
            raise ConfigurationError(f"counters_reserved={self.counters_reserved}, must be 0 or more")

    def _check_choices(self) -> None:
        if self.congestion_control not in ("static", "cubic"):
            raise ConfigurationError(f"congestion_control={self.congestion_control!r}, must be static or cubic")
        if self.cubic_initial_rtt_ns < 1_000:
            raise ConfigurationError(f"cubic_initial_rtt_ns={self.cubic_initial_rtt_ns}, must be 1000 ns or more")
        if self.receiver_group_consideration not in ("true", "false", "infer"):
            raise ConfigurationError(
                f"receiver_group_consideration={self.receiver_group_consideration!r}, must be true, false or infer"
            )
        if self.multicast_flow_control not in ("max", "min", "tagged"):
            raise ConfigurationError(
                f"multicast_flow_control={self.multicast_flow_control!r}, must be max, min or tagged"
            )
        if self.file_access not in ACCESSES:
            raise ConfigurationError(f"file_access={self.file_access!r}, must be one of {', '.join(ACCESSES)}")
        self._check_threads()
        for name in ("sender_wildcard_ports", "receiver_wildcard_ports"):
            port_range(getattr(self, name), name)
        table_of_names(self.name_table)
        self._check_resolver()
        if self.stream_session_limit < 1:
            raise ConfigurationError(f"stream_session_limit={self.stream_session_limit}, must be 1 or more")
        if not 1 <= self.max_resend <= 256:
            raise ConfigurationError(f"max_resend={self.max_resend}, must be from 1 to 256")

    def _check_resolver(self) -> None:
        if bool(self.resolver_interface) != bool(self.resolver_name):
            raise ConfigurationError("resolver_name and resolver_interface: give both, or none")
        if self.resolver_name and not (self.resolver_name.isascii() and len(self.resolver_name) <= 512):
            raise ConfigurationError(f"resolver_name={self.resolver_name!r}, must be at most 512 ASCII characters")
        if self.resolver_interface:
            socket_names(self.resolver_interface, "resolver_interface")
        socket_names(self.resolver_bootstrap, "resolver_bootstrap")

    def _check_threads(self) -> None:
        if self.threading_mode not in THREADING_MODES:
            raise ConfigurationError(
                f"threading_mode={self.threading_mode!r}, must be one of {', '.join(THREADING_MODES)}"
            )
        for name in ("conductor_idle", "sender_idle", "receiver_idle"):
            if getattr(self, name) not in IDLE_STRATEGIES:
                raise ConfigurationError(f"{name}={getattr(self, name)!r}, must be one of {', '.join(IDLE_STRATEGIES)}")
        for name in ("conductor_cpu", "sender_cpu", "receiver_cpu"):
            cpu, cores = getattr(self, name), sorted(os.sched_getaffinity(0))
            if cpu is None or cpu in (range(len(cores)) if self.cpus_are_offsets else cores):
                continue
            if self.cpus_are_offsets:
                last = len(cores) - 1
                raise ConfigurationError(f"{name}={cpu}, must be from 0 to {last}, the cores that this process may use")
            allowed = ", ".join(map(str, cores))
            raise ConfigurationError(f"{name}={cpu}, must be a core that this process may use: {allowed}")
        if self.idle_park_max_ns < 1_000:
            raise ConfigurationError(f"idle_park_max_ns={self.idle_park_max_ns}, must be 1000 ns or more")

    def core(self, part: str) -> int | None:
        """Return the core of `conductor`, `sender` or `receiver`, None where it may use all of them."""
        cpu: int | None = getattr(self, f"{part}_cpu")
        if cpu is None or not self.cpus_are_offsets:
            return cpu
        return sorted(os.sched_getaffinity(0))[cpu]

    @property
    def socket_buffers(self) -> dict[str, int]:
        """Return the default lengths of a socket's buffers, by the channel's keys."""
        return {"so-rcvbuf": self.socket_rcvbuf, "so-sndbuf": self.socket_sndbuf}

    @property
    def untethered_linger_ns(self) -> int:
        """The linger of untethered subscriptions; their window limit timeout unless set."""
        if self.untethered_linger_timeout_ns is None:
            return self.untethered_window_limit_timeout_ns
        return self.untethered_linger_timeout_ns
