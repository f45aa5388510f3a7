"""The archive: recordings of streams in segment files, replayed and replicated."""

if __name__ != "ordo.archive":
    raise ImportError("import it as ordo.archive: no module may be imported under two names")
