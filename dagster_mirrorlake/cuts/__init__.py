"""Cuts in Dagster: by source, an asset of which each cut is a materialisation, its checks, a job.

What belongs here: how a cut is shown, and what its verdicts are in Dagster's words. What doesn't:
making and proving it (`mirrorlake.cuts`).
"""

ADDS = {
    "assets": {"cuts": "dagster_mirrorlake.cuts.asset:build_assets"},
    "asset checks": {"cuts": "dagster_mirrorlake.cuts.checks:build_checks"},
    "schedules": {"cuts": "dagster_mirrorlake.cuts.schedule:build_schedules"},
    "computed reports": {"cuts": "dagster_mirrorlake.cuts.reports:build_reporters"},
    "job definitions": {"cuts": "dagster_mirrorlake.cuts.job:build_jobs"},
}
