"""A whole platform from one file: ``dagster dev -m dagster_mirrorlake.definitions`` beside a
``mirrorlake.yaml``."""

from dagster_mirrorlake.location import config_path, load_definitions

defs = load_definitions(config_path())
