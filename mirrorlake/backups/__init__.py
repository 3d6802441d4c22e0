"""A project's lake, catalog and ledger as one: backed up, restored, moved.

What belongs here: which parts, in which order, and what is refused. What doesn't: the paths inside
of a lake's files (`mirrorlake.destinations.iceberg.warehouse.lake_paths`).
"""

ADDS = {
    "commands: Upkeep": {
        "backup": "mirrorlake.backups.cli:backup",
        "restore": "mirrorlake.backups.cli:restore",
    },
    "commands: lake": {"move": "mirrorlake.backups.cli:move"},
}
