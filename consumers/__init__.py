"""Durable consumers of the committed log, alone and shared."""

if __name__ != "ordo.consumers":
    raise ImportError("import it as ordo.consumers: no module may be imported under two names")
