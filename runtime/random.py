"""Randomness, handed out by name: one seed gives every consumer a generator of its own, always the same one."""

import hashlib
import os
from random import Random, SystemRandom


class RandomSource:
    """Generators seeded from one seed and their names.

    A consumer that draws more, or a new consumer, changes nothing for the others. Without a seed the operating system
    gives one; `seed` tells it, so that a run can be repeated.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._is_seeded = seed is not None
        self.seed = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self._streams: dict[str, Random] = {}

    def stream(self, name: str) -> Random:
        """Return the generator of a name, such as "election"; the same object every time."""
        if name not in self._streams:
            digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
            self._streams[name] = Random(int.from_bytes(digest, "little"))
        return self._streams[name]

    def secret(self, name: str) -> Random:
        """Return a generator whose numbers cannot be predicted from earlier ones.

        It is the operating system's, or one of a seeded source.
        """
        return self.stream(name) if self._is_seeded else SystemRandom()

    def child(self, name: str) -> "RandomSource":
        """Return an independent source, such as for one node of a simulated cluster."""
        digest = hashlib.sha256(f"{self.seed}//{name}".encode()).digest()
        return RandomSource(int.from_bytes(digest[:8], "little"))
