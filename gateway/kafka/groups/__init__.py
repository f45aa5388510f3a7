"""Consumer groups of one door: who is a member, in which generation, with which assignment."""

if __name__ != "ordo.gateway.kafka.groups":
    raise ImportError("import it as ordo.gateway.kafka.groups: no module may be imported under two names")
