"""One sensor for the location: which tables became late or failing, sent to the alert hooks."""

from typing import Any

import dagster as dg

from dagster_mirrorlake.names import Names
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import STATUS
from mirrorlake.config import Config

INTERVAL_SECONDS = 60


def build_alerts_sensor(
    config: Config, names: Names | None = None, *, running: bool = False
) -> dg.SensorDefinition:
    """The sensor that notifies the contract file's hooks. It starts no run, queries no source."""
    named = names or Names()

    @dg.sensor(
        name=named.of("alerts"),
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys=named.all_of({"ledger"}),
        default_status=STATUS[running],
        description="Tells the alert hooks which tables became late or failing, once, and when "
        f"that is over: {', '.join(config.alerts.hooks)}.",
    )
    def alerts(context: dg.SensorEvaluationContext) -> Any:
        from mirrorlake.operations.alerts import send_alerts

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

    return alerts
