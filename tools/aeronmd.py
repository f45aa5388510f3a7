"""Stands in for `aeronmd`, Aeron's C driver: takes its environment and arguments, and runs Ordo's driver.

Programs that start a driver of their own, as Aeron's tests do, can be given Ordo's so. A setting is one of Aeron's
names: `AERON_MTU_LENGTH` in the environment, `-Daeron.mtu.length=...`, or a line of a file of properties. What Ordo has
no name for is left out, with a line on standard output; what would make a test pass that was not run is refused. The
losses and names that Aeron's tests ask for are those of `tools/aeronmd_faults.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ordo.runtime.errors import ConfigurationError
from ordo.runtime.settings.config import parse_duration_ns, parse_size_bytes
from ordo.transport.client.client_transport import IMAGE_MEMORY_PER_SOURCE_MAX, IMAGE_TERM_LENGTH_MAX
from ordo.transport.driver.channels.settings import MediaDriverSettings, default_directory
from ordo.transport.driver.program import run_driver
from tools.aeronmd_faults import OF_FAULTS, losses_of, names_of, run_faulty

PREFIX = "AERON_"
USAGE_STATUS = 2
_MS = 1_000_000


def duration_ns(text: str) -> int:
    """Return nanoseconds of "5s", "100ms" or a bare number of nanoseconds."""
    return int(text) if text.isdecimal() else parse_duration_ns(text.lower())


def nak_delay_ns(text: str) -> int:
    """Return the delay; 0 stands for no delay, of which Ordo's driver has 1 us."""
    return max(duration_ns(text), 1_000)


def timeout_ms(text: str) -> int:
    """Return nanoseconds of a time that Aeron gives in milliseconds."""
    return int(text) * _MS if text.isdecimal() else parse_duration_ns(text.lower())


def size_bytes(text: str) -> int:
    return parse_size_bytes(text.lower())


def core(text: str) -> int | None:
    """Return a core; -1 stands for any."""
    return None if int(text) < 0 else int(text)


def flag(text: str) -> bool:
    return text.lower() in ("true", "1", "yes", "on")


def threading_mode(text: str) -> str:
    """Return the mode; a program has threads of its own, so INVOKER is one thread."""
    mode = text.lower().replace("_", "-")
    return "shared" if mode == "invoker" else mode


def port_range(text: str) -> str:
    """Return `low-high` of Aeron's `low high`."""
    return "-".join(text.split())


def flow_control(text: str) -> str:
    """Return the strategy that the name of a supplier says."""
    return next((name for name in ("min", "tagged") if f"_{name}_" in text.lower()), "max")


def congestion_control(text: str) -> str:
    return "cubic" if "cubic" in text.lower() else "static"


def group_consideration(text: str) -> str:
    """Return true, false or infer of TRUE, FORCE_TRUE and the like."""
    return text.lower().removeprefix("force_")


Rule = tuple[str, Callable[[str], Any]]
SETTINGS: dict[str, Rule] = {
    "DIR": ("directory", str),
    "DIR_DELETE_ON_START": ("delete_directory_on_start", flag),
    "DIR_DELETE_ON_SHUTDOWN": ("delete_directory_on_shutdown", flag),
    "DRIVER_TERMINATION_VALIDATOR": ("termination_allowed", lambda text: "allow" in text.lower()),
    "DRIVER_TIMEOUT": ("driver_timeout_ns", timeout_ms),
    "DRIVER_STREAM_SESSION_LIMIT": ("stream_session_limit", int),
    "DRIVER_RERESOLUTION_CHECK_INTERVAL": ("reresolution_interval_ns", duration_ns),
    "DRIVER_RESOLVER_NAME": ("resolver_name", str),
    "DRIVER_RESOLVER_INTERFACE": ("resolver_interface", str),
    "DRIVER_RESOLVER_BOOTSTRAP_NEIGHBOR": ("resolver_bootstrap", str),
    "THREADING_MODE": ("threading_mode", threading_mode),
    "MULTICAST_FLOWCONTROL_SUPPLIER": ("multicast_flow_control", flow_control),
    "CONGESTIONCONTROL_SUPPLIER": ("congestion_control", congestion_control),
    "RECEIVER_GROUP_CONSIDERATION": ("receiver_group_consideration", group_consideration),
    "SENDER_WILDCARD_PORT_RANGE": ("sender_wildcard_ports", port_range),
    "RECEIVER_WILDCARD_PORT_RANGE": ("receiver_wildcard_ports", port_range),
    "RECEIVER_GROUP_TAG": ("receiver_group_tag", int),
    "FLOW_CONTROL_GROUP_TAG": ("flow_control_group_tag", int),
    "FLOW_CONTROL_GROUP_MIN_SIZE": ("flow_control_group_size_min", int),
    "PUBLICATION_RESERVED_SESSION_ID_LOW": ("reserved_session_id_low", int),
    "PUBLICATION_RESERVED_SESSION_ID_HIGH": ("reserved_session_id_high", int),
    "CONDUCTOR_CPU_AFFINITY": ("conductor_cpu", core),
    "SENDER_CPU_AFFINITY": ("sender_cpu", core),
    "RECEIVER_CPU_AFFINITY": ("receiver_cpu", core),
    "THREAD_AFFINITY_USE_CPUSET_OFFSETS": ("cpus_are_offsets", flag),
    "SOCKET_MULTICAST_TTL": ("multicast_ttl", int),
    "MAX_RESEND": ("max_resend", int),
    "NAK_UNICAST_RETRY_DELAY_RATIO": ("nak_unicast_retry_delay_ratio", int),
    "NAK_MULTICAST_GROUP_SIZE": ("nak_multicast_group_size", int),
    "NAK_UNICAST_DELAY": ("nak_unicast_delay_ns", nak_delay_ns),
    "NAK_MULTICAST_MAX_BACKOFF": ("nak_multicast_backoff_max_ns", duration_ns),
    "RETRANSMIT_UNICAST_DELAY": ("retransmit_delay_ns", duration_ns),
    "RETRANSMIT_UNICAST_LINGER": ("retransmit_linger_ns", duration_ns),
    "RCV_STATUS_MESSAGE_TIMEOUT": ("status_message_timeout_ns", duration_ns),
    "COUNTERS_FREE_TO_REUSE_TIMEOUT": ("counters_reuse_timeout_ns", duration_ns),
    "CUBICCONGESTIONCONTROL_INITIALRTT": ("cubic_initial_rtt_ns", duration_ns),
    "CUBICCONGESTIONCONTROL_MEASURERTT": ("cubic_measures_rtt", flag),
    "CUBICCONGESTIONCONTROL_TCPMODE": ("cubic_tcp_friendly", flag),
    "TERM_BUFFER_SPARSE_FILE": ("term_buffer_sparse", flag),
    "SPIES_SIMULATE_CONNECTION": ("spies_simulate_connection", flag),
    "TETHER_SUBSCRIPTIONS": ("tether_subscriptions", flag),
    "RELIABLE_STREAM": ("reliable_stream", flag),
    "REJOIN_STREAM": ("rejoin_stream", flag),
    "TERM_BUFFER_LENGTH": ("term_length", size_bytes),
    "IPC_TERM_BUFFER_LENGTH": ("ipc_term_length", size_bytes),
    "PUBLICATION_TERM_WINDOW_LENGTH": ("publication_window", size_bytes),
    "IPC_PUBLICATION_TERM_WINDOW_LENGTH": ("ipc_publication_window", size_bytes),
    "MTU_LENGTH": ("mtu", size_bytes),
    "IPC_MTU_LENGTH": ("ipc_mtu", size_bytes),
    "RCV_INITIAL_WINDOW_LENGTH": ("receiver_window", size_bytes),
    "SOCKET_SO_RCVBUF": ("socket_rcvbuf", size_bytes),
    "SOCKET_SO_SNDBUF": ("socket_sndbuf", size_bytes),
    "FILE_PAGE_SIZE": ("page_size", size_bytes),
    "COUNTERS_BUFFER_LENGTH": ("counters_values_length", size_bytes),
    "ERROR_BUFFER_LENGTH": ("error_log_length", size_bytes),
    "LOSS_REPORT_BUFFER_LENGTH": ("loss_report_length", size_bytes),
    "TIMER_INTERVAL": ("timer_interval_ns", duration_ns),
    "CLIENT_LIVENESS_TIMEOUT": ("client_liveness_timeout_ns", duration_ns),
    "IMAGE_LIVENESS_TIMEOUT": ("image_liveness_timeout_ns", duration_ns),
    "PUBLICATION_UNBLOCK_TIMEOUT": ("publication_unblock_timeout_ns", duration_ns),
    "PUBLICATION_CONNECTION_TIMEOUT": ("publication_connection_timeout_ns", duration_ns),
    "PUBLICATION_LINGER_TIMEOUT": ("publication_linger_timeout_ns", duration_ns),
    "FLOW_CONTROL_RECEIVER_TIMEOUT": ("flow_control_receiver_timeout_ns", duration_ns),
    "UNTETHERED_WINDOW_LIMIT_TIMEOUT": ("untethered_window_limit_timeout_ns", duration_ns),
    "UNTETHERED_LINGER_TIMEOUT": ("untethered_linger_timeout_ns", duration_ns),
    "UNTETHERED_RESTING_TIMEOUT": ("untethered_resting_timeout_ns", duration_ns),
}
"""Aeron's names without their prefix, Ordo's fields, and how a value is read."""

REFUSED = {
    "UDP_CHANNEL_OUTGOING_INTERCEPTORS": "",
    "UDP_CHANNEL_TRANSPORT_BINDINGS_MEDIA": "default",
    "CONDUCTOR_UDP_CHANNEL_TRANSPORT_BINDINGS_MEDIA": "default",
    "DRIVER_DYNAMIC_LIBRARIES": "",
}
"""Aeron's names of what changes what a program meets, such as losses, each with the one value that Ordo has too."""


def given(environment: Mapping[str, str], arguments: list[str]) -> dict[str, str]:
    """Return what is set, by Aeron's names without their prefix; arguments win over the environment."""
    found = dict(environment)
    for argument in arguments:
        if argument.startswith("-D"):
            lines = [argument.removeprefix("-D")]
        elif argument.startswith("-"):
            raise ConfigurationError(f"{argument}: unknown argument: -Dname=value or a file of properties is allowed")
        else:
            lines = Path(argument).read_text().splitlines()
        for line in lines:
            name, equals, value = line.strip().partition("=")
            if equals and not name.startswith("#"):
                found[name.strip().replace(".", "_").upper()] = value.strip()
    return {name.removeprefix(PREFIX): value for name, value in found.items() if name.startswith(PREFIX) and value}


def driver_settings(values: Mapping[str, str], say: Callable[[str], object]) -> MediaDriverSettings:
    """Return a driver's settings. Raises ConfigurationError for what Ordo's driver could not do."""
    fields: dict[str, Any] = {
        "directory": default_directory(),
        "threading_mode": "dedicated",
        "delete_directory_on_shutdown": False,
        "image_term_length_max": IMAGE_TERM_LENGTH_MAX,
        "image_memory_per_source_max": IMAGE_MEMORY_PER_SOURCE_MAX,
    }
    for name, value in sorted(values.items()):
        if name in REFUSED and value.lower() != REFUSED[name]:
            raise ConfigurationError(f"{PREFIX}{name}={value}: Ordo's driver has no such thing: leave it out")
        if name in OF_FAULTS:
            continue
        if name not in SETTINGS:
            say(f"aeronmd: {PREFIX}{name}={value} means nothing to Ordo's driver")
            continue
        field, read = SETTINGS[name]
        try:
            fields[field] = read(value)
        except ValueError as error:
            raise ConfigurationError(f"{PREFIX}{name}={value}: {error}") from None
    return MediaDriverSettings(**fields)


def main() -> int:
    """Run until SIGTERM, SIGINT or a client's command to end; 2 when the settings are wrong."""

    def say(line: str, **_: object) -> None:  # Aeron's tests fail where a driver writes to standard error
        print(line, flush=True)

    try:
        values = given(os.environ, sys.argv[1:])
        settings, losses, names = driver_settings(values, say), losses_of(values), names_of(values)
    except (ConfigurationError, OSError) as error:
        print(f"aeronmd: {error}", file=sys.stderr)
        return USAGE_STATUS
    if losses is None and names is None:
        run_driver(settings, say)
    else:
        run_faulty(settings, losses, names, say)
    return 0


if __name__ == "__main__":
    sys.exit(main())
