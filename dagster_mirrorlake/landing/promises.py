"""What the checks of a table of mode ``snapshot`` promise, by name."""

from dagster_mirrorlake.checks.series import UNIQUE

FRESH = "fresh"
COUNT = "row_count"
EXACT = "exact_match"
SUSPECTED = "suspected_pii"
CHECKS = {
    "published": "The version that readers see holds every snapshot of the run.",
    UNIQUE: "No two rows share a key.",
    COUNT: "As many rows as the newest snapshot has, and those that it lacks.",
    EXACT: "Every row that readers see, kept ones and _mirror_snapshot too, is what the files of "
    "the snapshots in it say, read again.",
    FRESH: "Snapshots are published within the limit after their files were first seen; none is "
    "refused, stuck, or withdrawn by a rollback.",
    SUSPECTED: "A sample of clean's new rows: no column without a rule holds what looks personal.",
}
