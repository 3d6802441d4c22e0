"""One sensor for the location: which tables became late or failing, sent to the alert hooks."""

from typing import Any

import dagster as dg

from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import STATUS
from mirrorlake.alerts.config import AlertsConfig

INTERVAL_SECONDS = 60


def build_alerts_sensors(mirror: Mirror) -> list[dg.SensorDefinition]:
    """The sensor that notifies the contract file's hooks; none where there is no hook. It starts no
    run, queries no source."""
    hooks, named = mirror.config.section(AlertsConfig).hooks, mirror.names
    if not hooks:
        return []

    @dg.sensor(
        name=named.of("alerts"),
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys=named.all_of({"ledger"}),
        default_status=STATUS[mirror.running],
        description="Tells the alert hooks which tables became late or failing, once, and when "
        f"that is over: {', '.join(hooks)}.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> Any:
        from mirrorlake.alerts.late_tables import send_alerts

        with dagster_errors():
            ledger = named.resources(context).ledger
            sent = send_alerts(ledger.contracts, ledger.ledger)
        for one in sent:
            words = f"{one.hook}: {one.table} {one.kind} {one.event}"
            if one.delivered:
                context.log.info(words)
            else:
                context.log.warning(f"{words}: not delivered, {one.error}")
        failed = sum(not one.delivered for one in sent)
        return dg.SkipReason(f"{len(sent) - failed} delivered, {failed} failed")

    return [alerts]
