"""Raft without I/O: events and the time go in, commands come out."""

if __name__ != "ordo.consensus":
    raise ImportError("import it as ordo.consensus: no module may be imported under two names")
