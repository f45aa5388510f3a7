"""The ground of all layers: agents, clocks, counters, storage, settings."""

if __name__ != "ordo.runtime":
    raise ImportError("import it as ordo.runtime: no module may be imported under two names")
