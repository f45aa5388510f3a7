"""Two local clusters of one process never share a folder in shared memory."""

from __future__ import annotations

from pathlib import Path

from ordo.deploy.launcher import LocalCluster, find_ports, release_ports


def test_clusters_of_the_same_ports_have_folders_of_their_own(tmp_path: Path) -> None:
    """As two have that one process makes in two network namespaces, each of which has all ports free."""
    ports = find_ports(1)
    folders = set()
    for name in ("one", "two"):
        release_ports(ports)
        cluster = LocalCluster("examples.counter:Counter", member_count=1, root=tmp_path / name, ports=ports)
        folders.add(cluster.aeron_dir(0))
        cluster.close()
    assert len(folders) == 2
