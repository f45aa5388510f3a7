"""What `ordo cluster adopt` does: the folder of another member of the same cluster becomes this member's."""

from __future__ import annotations

from ordo.cluster.admin.member_store import open_stopped
from ordo.cluster.module.state.folder_rows import Owner
from ordo.cluster.settings.config import NodeSettings
from ordo.consensus.state.distrust import Distrust
from ordo.runtime.errors import ClusterError
from ordo.runtime.io.storage import Storage


def adopt(config: NodeSettings, storage: Storage | None = None) -> str:
    """Make a folder this member's own; return one line that says what was done.

    What the member itself had acknowledged and voted for is not in the folder, so it is taken as one that lost its log
    and its vote.

    Raises ClusterError where the folder is of another cluster, or this member's already; StorageInUseError while a
    member runs with it, StorageMissingError when none has ever run with it.
    """
    owner = Owner(config.cluster.cluster_id, config.node.member_id)
    folder = config.node.data_dir
    with open_stopped(config, storage) as store:
        found = store.folder.owner
        if found == owner:
            raise ClusterError(f"the data folder {folder} is that of member {owner.member_id} already")
        if found is not None and found.cluster_id != owner.cluster_id:
            raise ClusterError(
                f"the data folder {folder} is of cluster {found.cluster_id}, and this member is of cluster "
                f"{owner.cluster_id}: start it with its own folder, or with an empty one and `--rejoin`"
            )
        distrust = store.load().distrust
        store.put_distrust(distrust | Distrust.LOG | Distrust.VOTE)
        store.folder.put_owner(owner)
    former = "an unknown member" if found is None else f"member {found.member_id}"
    return (
        f"the data folder {folder} of {former} is now that of member {owner.member_id}, which votes once it has caught "
        "up: start it while all other members run"
    )
