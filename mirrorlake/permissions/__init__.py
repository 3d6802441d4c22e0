"""Permissions: who may do what with datasets of BigQuery, and who is in which Google group, from a
file.

What belongs here: the file ``permissions.yaml``, what it changes, and the log of changes. What
doesn't: clients of BigQuery (`mirrorlake.bigquery`), above which this stands.
"""

NEEDS = ("bigquery",)
ADDS = {
    "ledger.tables": {"access_changes": "mirrorlake.permissions.ledger:ACCESS_CHANGES"},
    "commands: BigQuery": {"permissions": "mirrorlake.permissions.cli:permissions"},
}
