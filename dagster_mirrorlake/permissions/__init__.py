"""Permissions in Dagster: an asset that nobody materialises, and its check.

What belongs here: what Dagster shows. What doesn't: comparing (`mirrorlake.permissions`).
"""

ADDS = {
    "assets": {"permissions": "dagster_mirrorlake.permissions.checks:permissions_assets"},
    "checks": {"permissions": "dagster_mirrorlake.permissions.checks:permissions_checks"},
    "schedules": {"permissions": "dagster_mirrorlake.permissions.checks:permissions_schedules"},
}
