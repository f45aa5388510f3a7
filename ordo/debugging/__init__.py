"""A log as evidence: the prompt over a service at a record, bisection, comparison, recordings for tests."""
