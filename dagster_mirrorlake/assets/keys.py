"""Keys and tags that are no table's: those of a table are its translator's to say."""

import dagster as dg

from dagster_mirrorlake.names import Names

LOAD_TAG = "mirrorlake/load"
"""Of a run: ``live`` loads what is new, whatever day was requested; ``daily`` loads the requested
day again and then what is new. Without it, past days are loaded again and the open day is live."""
ACCEPT_TAG = "mirrorlake/accept-smaller"
"""Of a run, ``true``: full copies are taken that are far smaller than the last ones."""
GROUP = "mirrorlake"
"""The group of the assets that are no table's."""


def cleanup_key(source: str, names: Names) -> dg.AssetKey:
    """``cleanup/<source>``, of a mirror with a name ``cleanup/<mirror>/<source>``."""
    return names.key("cleanup", source)


def log_key(source: str, names: Names) -> dg.AssetKey:
    """``log/<source>``, of a mirror with a name ``log/<mirror>/<source>``."""
    return names.key("log", source)


def permissions_key(names: Names) -> dg.AssetKey:
    """``permissions``, of a mirror with a name ``permissions/<mirror>``."""
    return names.key("permissions")


def maintenance_key(names: Names) -> dg.AssetKey:
    """``maintenance``, of a mirror with a name ``maintenance/<mirror>``."""
    return names.key("maintenance")
