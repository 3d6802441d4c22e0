"""What starts runs, and what reports a failed one.

What belongs here: requests and messages. What doesn't: deciding which table moved
(`mirrorlake.operations.loading.detect`), which tenants did
(`mirrorlake.operations.tenants.detect`), or whose raw is ahead
(`mirrorlake.operations.days.unfolded`); no sensor starts a JVM.
"""

from dagster_mirrorlake.sensors.failed import build_failed_sensor
from dagster_mirrorlake.sensors.moved import build_moved_sensor
from dagster_mirrorlake.sensors.partitions import build_partitions_sensor
from dagster_mirrorlake.sensors.schedules import (
    build_cleanup_schedule,
    build_maintenance_schedule,
    build_proof_schedule,
    build_schedule,
)
from dagster_mirrorlake.sensors.tenants import build_tenants_sensor
from dagster_mirrorlake.sensors.unfolded import build_unfolded_sensor

__all__ = [
    "build_cleanup_schedule",
    "build_failed_sensor",
    "build_maintenance_schedule",
    "build_moved_sensor",
    "build_partitions_sensor",
    "build_proof_schedule",
    "build_schedule",
    "build_tenants_sensor",
    "build_unfolded_sensor",
]
