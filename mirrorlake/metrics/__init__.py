"""What `status` knows of every table, as numbers for Prometheus.

What belongs here: which metrics there are, the file and the server that give them out, `metrics`.
What doesn't: what they say, where `status` has it (`mirrorlake.operations.status`), and who is
notified (`mirrorlake.alerts`, or Prometheus' own rules).
"""

ADDS = {
    "commands: Every day": {"metrics": "mirrorlake.metrics.cli:metrics"},
}
