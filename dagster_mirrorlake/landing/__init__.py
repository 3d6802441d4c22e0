"""Landing in Dagster: chains of tables whose snapshots land, their checks, sensors, and reports.

What belongs here: steps, verdicts, requests, and what is reported of snapshots. What doesn't:
taking, folding and checking them (`mirrorlake.landing`).
"""

ADDS = {
    "assets": {"landing": "dagster_mirrorlake.landing.chain:build_assets"},
    "checks": {"landing": "dagster_mirrorlake.landing.chain:build_checks"},
    "sensors": {"landing": "dagster_mirrorlake.landing.chain:build_sensors"},
    "checked assets": {"snapshot": "dagster_mirrorlake.landing.as_of:checked_assets"},
    "jobs": {"snapshot": "dagster_mirrorlake.landing.jobs:JOBS"},
    "reports": {"snapshot": "dagster_mirrorlake.landing.published:find_published"},
}
