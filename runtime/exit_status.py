"""Exit statuses that other processes understand."""

EXIT_STATUS_SERVICE = 70
"""A service raised: it would raise again after a restart, so the node must not be started again automatically."""
