"""BigQuery in Dagster: its assets, their check, the sensor that publishes, and what is reported.

What belongs here: what Dagster shows. What doesn't: loading (`mirrorlake.bigquery`).
"""

ADDS = {
    "assets": {"bigquery": "dagster_mirrorlake.bigquery.published:bigquery_assets"},
    "checks": {"bigquery": "dagster_mirrorlake.bigquery.checks:bigquery_checks"},
    "sensors": {"unpublished": "dagster_mirrorlake.bigquery.unpublished:unpublished_sensors"},
    "schedules": {"bigquery": "dagster_mirrorlake.bigquery.schedule:bigquery_schedules"},
    "reporters": {"bigquery": "dagster_mirrorlake.bigquery.reports:bigquery_reporter"},
}
