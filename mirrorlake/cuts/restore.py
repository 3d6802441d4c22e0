"""Cuts that a lost ledger knew, from what their tags left in the lake.

What belongs here: finding them. What doesn't: what tags say (`mirrorlake.cuts.tags`).
"""

from __future__ import annotations

from dataclasses import replace

from mirrorlake.config import Config
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.cuts.published import begin_published
from mirrorlake.cuts.tags import layers_of, property_of, read_tagged
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger


def restore_cuts(config: Config, ledger: Ledger, lake: Lake) -> list[str]:
    """Write down the cuts that the lake has tags of and the ledger does not know, with the tables
    that are tagged; their names. What was compared is not known any more.

    Raises:
        LakeError: the lake can't be read.
        LedgerError: the ledger failed.
    """
    cuts = Cuts(ledger)
    known = {cut.name for made in (True, False) for cut in cuts.all(made=made)}
    found: dict[str, Cut] = {}
    for one in (one for contract in config.tables for one in layers_of(contract)):
        table = lake.load(one.identifier)
        for tag, ref in table.metadata.refs.items() if table is not None else ():
            name = tag.removeprefix("cut_")
            said = table.properties.get(property_of(name)) if table is not None else None
            if said is None or tag == name or name in known:
                continue
            cut, tagged = read_tagged(said, name, replace(one, snapshot_id=ref.snapshot_id))
            before = found.get(name, cut)
            found[name] = replace(before, tables=(*before.tables, tagged))
    for cut in sorted(found.values(), key=lambda one: one.made_at):
        cuts.begin(cut)
        cuts.add(cut.name, list(cut.tables))
        begin_published(config, ledger, cut)
        cuts.finish(cut.name)
    return [*found]
