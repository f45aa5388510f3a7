"""Backups of a cluster: following one over the network, and making a new cluster of what was kept."""
