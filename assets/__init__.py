"""This deployment's assets: the mirrored tables, and what is made from them.

What belongs here: which assets there are. What doesn't: how a table is loaded or folded
(`mirrorlake`), or what its assets look like (`dagster_mirrorlake`).
"""

from assets.reports import flights_per_airport
from dagster_mirrorlake.build import Asset, Mirror, build_assets


def all_assets(mirror: Mirror) -> list[Asset]:
    """Per source table a chain mysql → raw → deduped → clean, and what is made of clean; add assets
    of your own here."""
    return [
        *build_assets(mirror),
        *(flights_per_airport(table) for table in mirror.named("nyc.nyc.flights")),
    ]
