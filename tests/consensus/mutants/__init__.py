"""Mutants of the consensus core: each comparison off by one, each condition negated, run against its unit tests."""
