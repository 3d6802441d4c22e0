"""Alerts: who is notified, once, when a table is late, keeps failing or was changed by other hands.

What belongs here: the section ``alerts``, which breaches there are, what was sent, how it is sent.
What doesn't: what late and failing mean in `status` and in checks (`mirrorlake.operations`).
"""

ADDS = {
    "config.sections": {"alerts": "mirrorlake.alerts.config:AlertsConfig"},
    "ledger.tables": {"alerts": "mirrorlake.alerts.ledger:ALERTS"},
    "commands: Every day": {"alert": "mirrorlake.alerts.cli:alert"},
}
