"""A service executed over a recorded log, outside of a cluster, up to any record."""
