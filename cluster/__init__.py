"""A cluster: its nodes, and the clients that talk to them."""

if __name__ != "ordo.cluster":
    raise ImportError("import it as ordo.cluster: no module may be imported under two names")
