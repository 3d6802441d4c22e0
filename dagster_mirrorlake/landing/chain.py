"""The assets, checks and sensors of every table whose snapshots land."""

from collections.abc import Iterator

import dagster as dg

from dagster_mirrorlake.assets.layer import layer_asset
from dagster_mirrorlake.build import Asset, Mirror
from dagster_mirrorlake.landing.checks import build_snapshot_checks
from dagster_mirrorlake.landing.sensor import build_landed_sensor
from dagster_mirrorlake.table import LAYERS

_STEPS = "dagster_mirrorlake.landing.steps"


def build_assets(mirror: Mirror) -> Iterator[Asset]:
    """Each table's chain; its landing is the source."""
    for table in mirror.snapshots:
        yield table.specs["source"]
        for layer in LAYERS:
            yield layer_asset(table, layer, _STEPS, needs=mirror.needs(table))


def build_checks(mirror: Mirror) -> Iterator[dg.AssetChecksDefinition]:
    """Each table's checks."""
    for table in mirror.snapshots:
        yield from build_snapshot_checks(table, mirror.needs(table))


def build_sensors(mirror: Mirror) -> Iterator[dg.SensorDefinition]:
    """A sensor on each table's landing."""
    for table in mirror.snapshots:
        yield build_landed_sensor(table, mirror.needs(table), running=mirror.running)
