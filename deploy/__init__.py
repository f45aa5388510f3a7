"""Launchers of local clusters, and what a deployment needs."""

if __name__ != "ordo.deploy":
    raise ImportError("import it as ordo.deploy: no module may be imported under two names")
