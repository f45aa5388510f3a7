"""Exit statuses of processes that other processes understand."""

EXIT_STATUS_SERVICE = 70
"""A service raised: it would again after a new start, so that whoever starts nodes should not."""
