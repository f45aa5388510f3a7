"""The interface that a user's service is written against; its names are public in `ordo`."""

if __name__ != "ordo.service_api":
    raise ImportError("import it as ordo.service_api: no module may be imported under two names")
