"""gRPC for programs in any language, in a separate process that is a client of the cluster."""

if __name__ != "ordo.gateway":
    raise ImportError("import it as ordo.gateway: no module may be imported under two names")
