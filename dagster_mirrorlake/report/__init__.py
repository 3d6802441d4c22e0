"""The report in Dagster: an asset whose materialisation is a new page.

What belongs here: the asset. What doesn't: the page (`mirrorlake.report`).
"""

ADDS = {"assets": {"report": "dagster_mirrorlake.report.asset:build_assets"}}
