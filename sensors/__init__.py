"""What starts runs, and what is said when one fails.

What belongs here: requests and messages. What doesn't: deciding which table moved
(`mirrorlake.watch`); no sensor starts a JVM.
"""

from sensors.daily import build_schedule
from sensors.failed import failed_runs
from sensors.moved import build_moved_sensor

__all__ = ["build_moved_sensor", "build_schedule", "failed_runs"]
