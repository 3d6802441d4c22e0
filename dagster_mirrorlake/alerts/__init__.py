"""Alerts in Dagster: a sensor that notifies the hooks.

What belongs here: the sensor. What doesn't: what is sent (`mirrorlake.alerts`).
"""

ADDS = {"sensors": {"alerts": "dagster_mirrorlake.alerts.sensor:build_alerts_sensors"}}
