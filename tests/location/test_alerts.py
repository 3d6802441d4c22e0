"""The sensor that tells the alert hooks: there where a hook is, and it starts no run."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from dagster_mirrorlake.location import load_definitions
from mirrorlake.config import load_config
from mirrorlake.ledger import Ledger
from tests.location.contracts import SMALL
from tests.unit.alerts.test_late_tables import SECRET, Hook, hook, loaded

__all__ = ["hook"]


def test_the_sensor_tells_once(
    contract_file: Any, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = contract_file(SMALL)
    assert "alerts" not in {s.name for s in load_definitions(path).sensors or []}
    monkeypatch.setenv("HOOK", hook.url)
    said = yaml.safe_load(path.read_text())
    path = path.with_name("alerting.yaml")
    path.write_text(yaml.safe_dump({**said, "alerts": {"webhook": "${env:HOOK}"}}))
    defs = load_definitions(path)
    dg.Definitions.validate_loadable(defs)
    ledger = Ledger(load_config(path).ledger.url)
    loaded(ledger, datetime.now(UTC) - timedelta(hours=3), "orders")
    assert looks(defs) == ["1 delivered, 0 failed", "0 delivered, 0 failed"]
    (body,) = hook.bodies
    assert [(a["table"], a["kind"]) for a in body["alerts"]] == [("s.shop.orders", "late")]


def test_a_url_that_apprise_does_not_understand_fails_the_tick_and_is_not_shown(
    contract_file: Any, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = contract_file(SMALL)
    monkeypatch.setenv("HOOK", hook.url)
    monkeypatch.setenv("PAGER", f"nosuch://{SECRET}/x")
    alerts = {"webhook": "${env:HOOK}", "services": {"pager": "${env:PAGER}"}}
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "alerts": alerts}))
    defs = load_definitions(path)
    loaded(Ledger(load_config(path).ledger.url), datetime.now(UTC) - timedelta(hours=3), "orders")
    with pytest.raises(Exception) as raised:
        looks(defs)
    shown = "".join(traceback.format_exception(raised.value))
    assert "alerts.services.pager: Apprise does not understand the URL in PAGER" in shown
    assert SECRET not in shown
    assert len(hook.bodies) == 1


def looks(defs: dg.Definitions) -> list[str | None]:
    """What two ticks of the sensor say."""
    said: list[str | None] = []
    for _ in range(2):
        with (
            dg.DagsterInstance.ephemeral() as instance,
            dg.build_sensor_context(
                instance=instance,
                repository_def=defs.get_repository_def(),
                resources=dict(defs.resources or {}),
            ) as context,
        ):
            data = defs.resolve_sensor_def("alerts").evaluate_tick(context)
        assert not data.run_requests
        said.append(data.skip_message)
    return said
