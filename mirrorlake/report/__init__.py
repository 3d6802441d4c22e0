"""One page to hand on: what the ledger knows of every table, day by day.

What belongs here: which figures the page has, how they are drawn, `report`. What doesn't: the
figures themselves, where `status`, `gaps` and checks have them (`mirrorlake.operations`).
"""

ADDS = {
    "commands: Every day": {"report": "mirrorlake.report.cli:report"},
}

MOST_DAYS = 800
"""How many days a report shows at most."""
