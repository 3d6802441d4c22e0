"""What a commit says that took partitions out of a model's table, because they are kept no more.

What belongs here: the words of the commit. What doesn't: making it
(`mirrorlake.models.partition_states.drop_expired`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from mirrorlake.destinations.iceberg.model import LakeSnapshot, snapshot_property

DROPPED = "mirrorlake.model-dropped"
"""The property of a commit that took partitions out."""


@dataclass(frozen=True)
class PartitionDrop:
    """All partitions before a time go, or some by their names.

    Attributes:
        name: of the partitions' days or moments; empty where none go by their time.
        before: the first that stays, as the names of partitions have it.
        run: which run drops them.
        keys: those that go by their names.
    """

    name: str
    before: str
    run: str
    keys: tuple[str, ...] = ()

    @staticmethod
    def of(commit: LakeSnapshot) -> PartitionDrop | None:
        """What a commit says; None of one that dropped nothing."""
        said = snapshot_property(commit, DROPPED)
        return None if said is None else PartitionDrop(**json.loads(said))

    @property
    def text(self) -> str:
        """The property's value."""
        return json.dumps(asdict(self))

    def takes(self, key: str) -> bool:
        """Whether a partition goes."""
        if key in self.keys:
            return True
        values = dict(part.split("=", 1) for part in key.split("/") if "=" in part)
        # Days and moments are written so that their texts are in their order.
        return values.get(self.name, self.before) < self.before
