"""What cuts keep from expiring: files that nothing else names any more.

What belongs here: counting. What doesn't: expiry (`mirrorlake.operations.upkeep.maintain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mirrorlake.cuts.ledger import Cut
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.named_files import files_named


def held_bytes(lake: Lake, cuts: Sequence[Cut]) -> dict[str, int]:
    """By cut, the bytes of data and delete files that its tags alone keep: neither main nor any
    other tag or branch of their table names them. Files that two cuts share count for neither.

    Raises:
        LakeError: the lake can't be read.
    """
    found = dict.fromkeys((cut.name for cut in cuts), 0)
    tags = {cut.tag: cut.name for cut in cuts}
    tables = {o.identifier: None for cut in cuts for o in cut.tables}
    for identifier in tables:
        table = lake.load(identifier)
        if table is None:
            continue
        refs: Mapping[str, Any] = table.metadata.refs
        with lake.translated(identifier):
            heads = {ref.snapshot_id for ref in refs.values()}
            files = files_named(table, heads)
        for name, ref in refs.items():
            others = {r.snapshot_id for other, r in refs.items() if other != name}
            if name in tags and ref.snapshot_id not in others:
                shared = set[str]().union(*(files[head] for head in others))
                mine = files[ref.snapshot_id]
                found[tags[name]] += sum(mine[path] for path in mine.keys() - shared)
    return found
