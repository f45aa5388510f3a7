"""The data pipeline: recordings as data frames, with Spark (`ordo.spark`) or without (`ordo.read`)."""

if __name__ != "ordo.pipeline":
    raise ImportError("import it as ordo.pipeline: no module may be imported under two names")
