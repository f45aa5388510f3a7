"""Reliable messages over UDP and shared memory, by a media driver of our own."""

if __name__ != "ordo.transport":
    raise ImportError("import it as ordo.transport: no module may be imported under two names")
