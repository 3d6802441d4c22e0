"""Landing: full copies of tables that arrive as files, taken in, folded and published by their ids.

What belongs here: files, their ledger, folding, publishing and checking them, `land`, `publish` and
`export`. What doesn't: the section of the contract file, which is part of a table's
(`mirrorlake.config.landing`).
"""

NEEDS = ("init",)
ADDS = {
    "commands: Snapshots": {
        "land": "mirrorlake.landing.cli:land",
        "publish": "mirrorlake.landing.publish_command:publish",
        "export": "mirrorlake.landing.cli:export",
    },
    "ledger.tables": {
        "landed_snapshots": "mirrorlake.landing.ledger:SNAPSHOTS",
        "landed_files": "mirrorlake.landing.ledger:LANDED_FILES",
        "snapshot_notices": "mirrorlake.landing.notices:SNAPSHOT_NOTICES",
    },
    "init": {"landing": "mirrorlake.landing.first_contract.options:LANDING"},
    "recorded copies": {"landing": "mirrorlake.landing.status:landed_copies"},
    "status": {"snapshot": "mirrorlake.landing.status:landed_status"},
    "check": {"snapshot": "mirrorlake.landing.check_command:CHECK"},
    "maintain": {"snapshot": "mirrorlake.landing.upkeep:UPKEEP"},
}
