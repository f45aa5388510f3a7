"""Keys as text and as files: a node's own, and those that it trusts.

A key file holds the secret key of one node, driver or program, and belongs to its user alone. A file of trusted keys
has one line for each: the public key, a name, and where it may be, if that is known:

    x25519:5Q0y...  member-1  10.0.0.2:9000-9004
    x25519:k3Tf...  desk-7    roles=ingress,queries

Roles count where `[authentication] by_key` is on; the key's name is then its holder's principal.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from ordo.runtime.errors import ConfigurationError, TransportError
from ordo.runtime.io.durable_files import create_durably, write_durably
from ordo.runtime.native.clock import Clock
from ordo.runtime.security.authentication import KEY_NAME_MARK, Right, rights_of_roles, topics_of_roles
from ordo.transport.resolver import resolve
from ordo.transport.secure.noise import KEY_BYTES, KeyPair

PUBLIC_PREFIX = "x25519:"
NO_RIGHTS = Right(0)
ROLES_PREFIX = "roles="
LOOK_INTERVAL_NS = 100_000_000
SECRET_PREFIX = "secret-x25519:"
_PLACE = re.compile(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d+)(?:-(\d+))?)?")


def public_text(public: bytes) -> str:
    """Return a public key in the form in which people pass it on."""
    return PUBLIC_PREFIX + base64.urlsafe_b64encode(public).decode().rstrip("=")


def parse_public(text: str) -> bytes:
    """Return the public key of a text that `public_text` made. Raises ConfigurationError."""
    if text.startswith(SECRET_PREFIX):
        raise ConfigurationError("this is a secret key: trust the public one, which `ordo keys show` prints")
    return _decode(text, PUBLIC_PREFIX, f"public key {text!r}")


def _decode(text: str, prefix: str, what: str) -> bytes:
    try:
        if not text.startswith(prefix):
            raise ValueError
        found = base64.b64decode(text.removeprefix(prefix) + "=", altchars="-_", validate=True)
    except (ValueError, binascii.Error):
        found = b""
    if len(found) != KEY_BYTES:
        raise ConfigurationError(f"{what}: must be {prefix} and 43 letters, as `ordo keys` prints them")
    return found


class Place(NamedTuple):
    """A host, and a range of ports that are this key's alone; 0 to 0 when none were named."""

    host: str
    first_port: int
    last_port: int


def parse_place(text: str) -> Place:
    """Parse `host`, `host:port` or `host:first-last`; a name is looked up here. Raises ConfigurationError."""
    match = _PLACE.fullmatch(text)
    first, last = (int(match[2] or 0), int(match[3] or match[2] or 0)) if match else (1, 0)
    if match is None or not 0 <= first <= last <= 65535:
        raise ConfigurationError(f"{text!r}: a place is host, host:port or host:first-last")
    try:
        return Place(str(ipaddress.ip_address(resolve(match[1].strip("[]")))), first, last)
    except TransportError as error:
        raise ConfigurationError(f"{text!r}: {error.message}") from None


@dataclass(frozen=True)
class TrustedKey:
    """A key that may take part; without places, from anywhere."""

    public: bytes
    name: str
    places: tuple[Place, ...] = ()
    rights: Right = NO_RIGHTS
    topics: tuple[str, ...] = ()

    def may_be_at(self, host: str) -> bool:
        return not self.places or any(place.host == host for place in self.places)


class Trusted:
    """The keys of a file."""

    def __init__(self, keys: list[TrustedKey]) -> None:
        self._keys = {key.public: key for key in keys}
        self._owners = [key for key in keys if any(place.first_port for place in key.places)]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[TrustedKey]:
        return iter(self._keys.values())

    def caller(self, public: bytes, host: str) -> TrustedKey | None:
        """Return the key of a caller from this host, if it is trusted there."""
        key = self._keys.get(public)
        return key if key is not None and key.may_be_at(host) else None

    def callee(self, public: bytes, host: str, port: int) -> TrustedKey | None:
        """Return the key of a peer to call; ports with keys of their own are answered by those only."""
        key = self.caller(public, host)
        owners = [known.public for known in self._owners if _owns(known, host, port)]
        return key if key is not None and (not owners or public in owners) else None

    def are_one(self, known: bytes, public: bytes) -> bool:
        """Return whether two keys have the same holder: they are the same, or have the same name.

        A known key that is not trusted any more has no holder, so that any other may take its place.
        """
        old, new = self._keys.get(known), self._keys.get(public)
        return old is None or (new is not None and (old.public == public or old.name == new.name != ""))


def _owns(key: TrustedKey, host: str, port: int) -> bool:
    return any(place.host == host and 0 < place.first_port <= port <= place.last_port for place in key.places)


def _check_name(name: str) -> str:
    """Raise ConfigurationError for what must be a mistake: a place or roles where the name belongs."""
    if ":" in name or "=" in name or KEY_NAME_MARK in name:
        raise ConfigurationError(f"name {name!r}: must be one word without : = and #, before places and roles")
    return name


def parse_trusted(text: str, source: str) -> Trusted:
    """Return the lines of a file of trusted keys. Raises ConfigurationError with file and line."""
    keys: dict[bytes, TrustedKey] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            public = parse_public(words[0])
            name = _check_name(words[1]) if len(words) > 1 else ""
            roles = [word.removeprefix(ROLES_PREFIX) for word in words[2:] if word.startswith(ROLES_PREFIX)]
            places = tuple(parse_place(word) for word in words[2:] if not word.startswith(ROLES_PREFIX))
            named = [role for role in ",".join(roles).split(",") if role]
            rights, topics = rights_of_roles(named), topics_of_roles(named)
        except ConfigurationError as error:
            raise ConfigurationError(f"{source}: line {number}: {error.message}") from None
        if public in keys:
            raise ConfigurationError(
                f"{source}: line {number}: this key stands there twice; give all places in one line"
            )
        namesake = next((key for key in keys.values() if key.name == name != ""), None)
        if namesake is not None and (namesake.rights, set(namesake.topics)) != (rights, set(topics)):
            raise ConfigurationError(
                f"{source}: line {number}: name {name!r} stands there with other roles; keys of one name are one "
                "principal: give each of them the same roles"
            )
        keys[public] = TrustedKey(public, name, places, rights, topics)
    return Trusted(list(keys.values()))


def _others_rights(owner: int) -> int:
    """Return the rights that a key file of this owner must not have.

    One of root's may be read by another user through its group, as Kubernetes mounts a Secret.
    """
    return 0o037 if owner == 0 != os.geteuid() else 0o077


def read_secret(path: str) -> KeyPair:
    """Return the key of a key file. Raises ConfigurationError, also for one that others than its user may read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            words = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigurationError(f"key file {path}: {reason}; `ordo keys new {path}` makes one") from None
    if found.st_mode & _others_rights(found.st_uid):
        mode = found.st_mode & 0o777
        raise ConfigurationError(f"key file {path}: others may read it (mode {mode:04o}); chmod 600 {path}")
    if len(words) != 1:
        raise ConfigurationError(f"key file {path}: must hold one secret key; `ordo keys new` makes such a file")
    return KeyPair.of(_decode(words[0], SECRET_PREFIX, f"key file {path}"))


def write_new_secret(path: str) -> KeyPair:
    """Write a key file that only its user can read. Raises ConfigurationError if the file exists."""
    pair = KeyPair.of(os.urandom(KEY_BYTES))
    secret = SECRET_PREFIX + base64.urlsafe_b64encode(pair.secret).decode().rstrip("=")
    text = f"# Secret key of one node; whoever has it, is that node.\n# Public: {public_text(pair.public)}\n{secret}\n"
    try:
        create_durably(path, text, mode=0o600)
    except FileExistsError:
        raise ConfigurationError(f"{path}: is there already; remove it first, if nobody needs that key") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    return pair


def read_trusted(path: str) -> Trusted:
    """Raise ConfigurationError."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_trusted(file.read(), path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigurationError(f"file of trusted keys {path}: {reason}") from None


def add_trusted(path: str, public: str, name: str, places: list[str], roles: Sequence[str] = ()) -> None:
    """Append a key to a file, which is made when missing. Raises ConfigurationError and then changes nothing."""
    parse_public(public)
    if len(name.split()) > 1:
        raise ConfigurationError(f"name {name!r}: must be one word")
    _check_name(name)
    if (places or roles) and not name:
        raise ConfigurationError("places and roles need a name before them: give --name")
    existing = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            existing = file.read()
    line = " ".join([public, name, *([ROLES_PREFIX + ",".join(roles)] if roles else ()), *places]).rstrip() + "\n"
    text = existing + ("" if existing.endswith("\n") or not existing else "\n") + line
    parse_trusted(text, path)
    write_durably(path, text, mode=0o600)


class Keyring:
    """The two files, as they were last read whole. `version` counts what changed."""

    def __init__(self, key_file: str, trusted_file: str) -> None:
        self._files = (key_file, trusted_file)
        self._stamps: tuple[Stamp | None, ...] | None = None
        self.version = 0
        self.own: KeyPair
        self.trusted: Trusted
        self.reload()

    def reload(self) -> bool:
        """Return whether something changed.

        Raises ConfigurationError for a file that cannot be used; all stays as it was.
        """
        stamps = _stamps(*self._files)
        if stamps == self._stamps:
            return False
        self._stamps = stamps
        own, trusted = read_secret(self._files[0]), read_trusted(self._files[1])
        if _stamps(*self._files) != stamps:
            self._stamps = None  # one changed meanwhile: all is read again next time
        self.own, self.trusted = own, trusted
        self.version += 1
        return True


Stamp = tuple[int, int, int]


def _stamps(*paths: str) -> tuple[Stamp | None, ...]:
    return tuple(_stamp(path) for path in paths)


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class TrustedRoles:
    """The roles of trusted keys, from the file, which is read at most every 100 ms."""

    def __init__(self, trusted_file: str, clock: Clock) -> None:
        self._file = trusted_file
        self._clock = clock
        self._next_look_ns = clock.now()
        self._stamps: tuple[Stamp | None, ...] | None = None
        self._rights: dict[str, Right] = {}
        self._topics: dict[str, tuple[str, ...]] = {}

    def read(self) -> dict[str, Right]:
        """Return the rights by name of the keys that have any. A file that cannot be used changes nothing."""
        now_ns = self._clock.now()
        if now_ns < self._next_look_ns:
            return self._rights
        self._next_look_ns = now_ns + LOOK_INTERVAL_NS
        stamps = _stamps(self._file)
        if stamps != self._stamps:
            self._stamps = stamps
            with suppress(ConfigurationError):
                named = [key for key in read_trusted(self._file) if key.rights]
                self._rights = {key.name: key.rights for key in named}
                self._topics = {key.name: key.topics for key in named}
            if _stamps(self._file) != stamps:
                self._stamps = None  # it changed meanwhile
        return self._rights

    def read_topics(self) -> dict[str, tuple[str, ...]]:
        """Return the topics by name that these keys may read; files are handled as in `read`."""
        self.read()
        return self._topics
