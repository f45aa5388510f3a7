"""Following the committed log, or a topic, from outside the cluster."""

if __name__ != "ordo.follow":
    raise ImportError("import it as ordo.follow: no module may be imported under two names")
