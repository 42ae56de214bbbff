"""Who a data directory belongs to: one small file, so that no node starts on another's data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace.model.names import NodeId, TopicId, topic_id_from_text, topic_id_text
from headrace.storage.files.layout import TOPICS

if TYPE_CHECKING:
    from headrace.runtime.disk import Disk

IDENTITY_FILE: Final = "meta.properties"
RESCUE_FILE: Final = "unfinished-rescue"
"""While it is there, a new cluster is being made of this directory, which holds neither the old nor the new one."""
KAFKA_METADATA: Final = "__cluster_metadata-0"
"""What Apache Kafka has beside a file of the same name and form as ours."""
FORMAT_VERSION: Final = "1"
NEW_NODE_ID: Final = NodeId(1)  # of a new directory, unless an operator says otherwise


class WrongIdentity(Exception):
    """The data directory is not this node's; the text says what to do."""


class Origin(Enum):
    """How a data directory came into being. A node whose metadata log is empty does what this says, no more."""

    ALONE = "alone"
    """A cluster of its own, which others may join. Only such a node ever takes itself for the only voter."""
    TOGETHER = "together"
    """It founds a cluster with others, once all of them have met."""
    JOINED = "joined"
    """The cluster was there before: this node waits to be told everything."""


@dataclass(frozen=True, slots=True)
class Identity:
    cluster_id: str
    """Empty until the cluster that this node starts together with others has a name."""
    node_id: NodeId
    directory: bytes = b""
    """Which disk this is: a node that comes back on another one has forgotten everything."""
    origin: Origin = Origin.ALONE

    def encode(self) -> bytes:
        lines = (
            f"version={FORMAT_VERSION}",
            f"cluster.id={self.cluster_id}",
            f"node.id={self.node_id}",
            f"directory.id={topic_id_text(TopicId(self.directory))}",
            f"origin={self.origin.value}",
            "",
        )
        return "\n".join(lines).encode()

    @classmethod
    def decode(cls, content: bytes) -> Identity:
        """Raises WrongIdentity if the file cannot be understood."""
        try:
            fields = dict(line.split("=", 1) for line in content.decode().splitlines() if line)
            if fields["version"] != FORMAT_VERSION:
                raise WrongIdentity(
                    f"{IDENTITY_FILE} has format {fields['version']}, this version of Headrace reads {FORMAT_VERSION}; "
                    "start it with the version that wrote it"
                )
            node_id = int(fields["node.id"])
            if node_id < 0:
                raise ValueError("node.id must not be negative")
            directory = topic_id_from_text(fields["directory.id"]) if "directory.id" in fields else b""
            is_named = bool(fields["cluster.id"])
            origin = Origin(fields.get("origin", (Origin.ALONE if is_named else Origin.TOGETHER).value))
            return cls(fields["cluster.id"], NodeId(node_id), directory, origin)
        except (KeyError, ValueError) as error:
            raise WrongIdentity(
                f"{IDENTITY_FILE} in the data directory is damaged ({error}); restore it or start on an empty one"
            ) from error

    def named(self, cluster_id: str) -> Identity:
        return replace(self, cluster_id=cluster_id)


def store_identity(disk: Disk, identity: Identity) -> None:
    disk.replace_file(IDENTITY_FILE, identity.encode())


def load_or_create(
    disk: Disk, node_id: NodeId | None, new_cluster_id: str, new_directory: bytes, origin: Origin
) -> Identity:
    """The directory's identity; blocking. `node_id` None takes whatever the directory says, or NEW_NODE_ID.

    One that begins alone names its cluster at once; for others the cluster has to say its name.
    """
    if disk.exists(RESCUE_FILE):
        raise WrongIdentity(
            "a rescue of this data directory has begun and was not finished; run `headrace rescue new-cluster` again, "
            "which goes on where it was"
        )
    if disk.list(KAFKA_METADATA):
        raise WrongIdentity(
            "the data directory is Apache Kafka's, which keeps its data in another way. Nothing was changed. Choose "
            "another directory; MirrorMaker 2 copies topics, their settings and the groups' offsets"
        )
    if disk.exists(IDENTITY_FILE):
        identity = Identity.decode(disk.read_file(IDENTITY_FILE))
        if node_id is not None and node_id != identity.node_id:
            raise WrongIdentity(
                f"the data directory belongs to node {identity.node_id}, not to node {node_id}; "
                f"start it with --node-id {identity.node_id} or choose another --data-dir"
            )
        if not identity.directory:  # written before disks had names
            identity = replace(identity, directory=new_directory)
            store_identity(disk, identity)
        return identity
    if disk.list(TOPICS):
        raise WrongIdentity(
            f"{IDENTITY_FILE} is missing, but the data directory holds data; put the file back, which says whose data "
            "it is, or start on an empty directory"
        )
    cluster_id = new_cluster_id if origin is Origin.ALONE else ""
    identity = Identity(cluster_id, node_id if node_id is not None else NEW_NODE_ID, new_directory, origin)
    store_identity(disk, identity)
    return identity


def check_metadata(identity: Identity, recorded_cluster_id: str | None, *, has_logs: bool) -> None:
    """Logs of topics that the metadata does not know are removed at a start. So metadata that is lost, or another
    cluster's, must stop the node before that."""
    if recorded_cluster_id is None and has_logs:
        raise WrongIdentity(
            "the data directory holds logs of topics, but the metadata log, which says whose they are, is missing or "
            "empty. Nothing was removed. Restore it from a backup, or start on an empty directory"
        )
    if identity.cluster_id and recorded_cluster_id not in {None, identity.cluster_id}:
        raise WrongIdentity(
            f"{IDENTITY_FILE} says cluster {identity.cluster_id}, the metadata log says {recorded_cluster_id}; "
            "one of them was taken from another data directory: put the right one back"
        )
