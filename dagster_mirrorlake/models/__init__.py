"""Models in Dagster: an asset for each, its partitions, checks and sensor; and the tables that are
made elsewhere.

What belongs here: what a model is called and shown as, and its runs. What doesn't: computing it
(`mirrorlake.models`).
"""

ADDS = {
    "assets": {"models": "dagster_mirrorlake.models.definitions:build_model_assets"},
    "checks": {"models": "dagster_mirrorlake.models.definitions:build_model_checks"},
    "sensors": {"models": "dagster_mirrorlake.models.definitions:build_model_sensors"},
    "computed": {"models": "dagster_mirrorlake.models.definitions:model_reporter"},
}
