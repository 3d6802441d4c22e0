"""This deployment's sensors and schedules.

What belongs here: what starts runs, and when. What doesn't: deciding which table moved
(`mirrorlake.operations.loading.detect`).
"""

import dagster as dg

from dagster_mirrorlake.build import Mirror, build_schedules, build_sensors


def all_sensors(mirror: Mirror) -> list[dg.SensorDefinition]:
    """Moved tables, landed snapshots, loads that nothing folded, alerts, failed runs."""
    return build_sensors(mirror)


def all_schedules(mirror: Mirror) -> list[dg.ScheduleDefinition]:
    """The day before again, proofs, cleanup, maintenance."""
    return build_schedules(mirror)
