"""The version of the distribution `ordo-sequencer`, defined only here."""

VERSION = "0.3.0"
