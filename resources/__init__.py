"""This deployment's resources.

What belongs here: what assets, checks and sensors are given. What doesn't: opening and closing
(`dagster_mirrorlake.resources`).
"""

from typing import Any

from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.resources import build_resources


def all_resources(mirror: Mirror) -> dict[str, Any]:
    """The run's workspace, its parts, and Spark; add resources of your own here."""
    return build_resources(str(mirror.config.path), mirror.config, mirror.names)
