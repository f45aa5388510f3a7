"""The schemas that members know are a function of the log: each once, and none that contradicts one before it."""

from __future__ import annotations

from itertools import pairwise

from ordo.service_api.messages.logged import LoggedSchema, extends
from tests.simulation.invariants.base import Invariant, WatchedWorld


class SchemasAreOfTheLog(Invariant):
    """Members that have executed the log up to the same position know the same schemas, from where on each is there."""

    name = "schemas are of the log"

    def __init__(self, world: WatchedWorld) -> None:
        super().__init__(world)
        self._known: dict[int, tuple[str, list[LoggedSchema]]] = {}
        self.most = 0

    def on_checkpoint(self) -> None:
        for node in self.world.nodes:
            if not node.is_alive or node.is_leaving:
                continue
            position = node.module.committed.executed_position
            schemas = node.module.rules.schemas.at(position)
            self.most = max(self.most, len(schemas))
            name, known = self._known.setdefault(position, (node.name, schemas))
            if schemas != known:
                self.fail(f"{node.name} knows {len(schemas)} at {position}, {name} {len(known)}")
            digests = [(one.service_id, one.digest) for one in schemas]
            if len(digests) != len(set(digests)):
                self.fail(f"{node.name} has a schema twice among {len(digests)} at {position}")
            if any(not extends(after.schema, before.schema) for before, after in pairwise(schemas)):
                self.fail(f"{node.name} has a schema at {position} that does not extend the one before")
