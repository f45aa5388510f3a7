"""Applications: services that run outside the cluster, over its committed log."""

if __name__ != "ordo.applications":
    raise ImportError("import it as ordo.applications: no module may be imported under two names")
