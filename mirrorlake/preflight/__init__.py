"""What a migration would do to the mirror, before it runs on MySQL; nothing is touched.

What belongs here: statements, tables that change and what is lost, kept, read again, for tables,
tenants and models. What doesn't: a schema change that has happened (`mirrorlake.table.continuity`).
"""

NEEDS = ("init",)
ADDS = {"commands: Look": {"preflight": "mirrorlake.preflight.cli:preflight"}}
