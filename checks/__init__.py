"""This deployment's asset checks.

What belongs here: which checks there are. What doesn't: looking (`mirrorlake.proof`), and a
verdict in Dagster's words (`dagster_mirrorlake.checks`).
"""

import dagster as dg

from dagster_mirrorlake.build import Mirror, build_asset_checks


def all_checks(mirror: Mirror) -> list[dg.AssetChecksDefinition]:
    """Counts, exact matches, keys, columns, privacy; add checks of your own here."""
    return build_asset_checks(mirror)
