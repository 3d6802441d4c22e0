"""The runs of the demo's Dagster, a line for each that starts, ends or fails.

Dagster's own output goes to a file: a person who watches the terminal sees what happens to the
tables, and opens the UI for the rest.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_ASK_SECONDS = 2.0
_MOST = 50
_QUERY = """
{ runsOrError(limit: %d) { ... on Runs { results {
    runId status jobName startTime endTime
    tags { key value } assetSelection { path } assetCheckSelection { name assetKey { path } }
} } } }
"""
_REASON = """
{ logsForRun(runId: "%s") { ... on EventConnection { events {
    ... on ExecutionStepFailureEvent { failureMetadata { description } error { message } }
    ... on RunFailureEvent { message }
} } } }
"""
_ENDED = {"SUCCESS": "done", "FAILURE": "FAILED", "CANCELED": "canceled"}
_IMPLICIT = "__ASSET_JOB"
_LONGEST = 300


@dataclass
class RunLines:
    """What was printed of which run.

    Attributes:
        url: the UI's address.
        say: prints one line.
    """

    url: str
    say: Callable[[str], None]
    _seen: dict[str, str] = field(default_factory=dict[str, str])

    def print_changes(self) -> None:
        """Print what happened to runs since the last time."""
        found = self.ask(_QUERY % _MOST)["runsOrError"].get("results", [])
        for run in reversed(found):
            self._print_run(run)

    def _print_run(self, run: dict[str, Any]) -> None:
        known, status = self._seen.get(run["runId"]), run["status"]
        short = run["runId"][:8]
        if known is None and status in ("STARTED", *_ENDED):
            self.say(f"{_clock(run['startTime'])} run {short} starts: {_what(run)}")
            known = self._seen[run["runId"]] = "STARTED"
        if known == "STARTED" and status in _ENDED:
            self._seen[run["runId"]] = status
            seconds = (run["endTime"] or 0) - (run["startTime"] or run["endTime"] or 0)
            words = f"{_ENDED[status]} after {seconds:.0f} s"
            if status == "FAILURE":
                words += f": {self._reason(run['runId'])}"
            self.say(f"{_clock(run['endTime'])} run {short} {words}")

    def _reason(self, run_id: str) -> str:
        """The first failed step's own words."""
        events = self.ask(_REASON % run_id)["logsForRun"].get("events", [])
        for event in events:
            said = (event.get("failureMetadata") or {}).get("description")
            said = said or (event.get("error") or {}).get("message") or event.get("message")
            if said:
                return " ".join(str(said).split())[:_LONGEST]
        return "see its page"

    def ask(self, query: str) -> dict[str, Any]:
        """What the UI's server answers.

        Raises:
            OSError: nothing answers.
            ValueError: what answers is no such server.
        """
        request = urllib.request.Request(  # noqa: S310 (the demo's own server on loopback)
            f"{self.url}/graphql",
            json.dumps({"query": query}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return json.load(answer)["data"]


def watch_runs(url: str, say: Callable[[str], None], stopped: threading.Event) -> None:
    """Print the lines of runs until stopped; a server that doesn't answer yet is waited for."""
    lines = RunLines(url, say)
    while not stopped.wait(_ASK_SECONDS):
        try:
            lines.print_changes()
        except (OSError, ValueError, KeyError, TypeError):
            continue


def wait_for(url: str, seconds: float, alive: Callable[[], bool]) -> bool:
    """Whether the UI answers, with its assets, within so many seconds."""
    lines = RunLines(url, lambda _: None)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and alive():
        try:
            if lines.ask("{ assetNodes { id } }")["assetNodes"]:
                return True
        except (OSError, ValueError, KeyError, TypeError):
            pass
        time.sleep(0.5)
    return False


def _what(run: dict[str, Any]) -> str:
    """What a run is for, shortly: the job, its tables or how many, and why."""
    tags = {tag["key"]: tag["value"] for tag in run["tags"]}
    job = "" if run["jobName"].startswith(_IMPLICIT) else f"job {run['jobName']}"
    tables = sorted({".".join(asset["path"][1:]) for asset in run["assetSelection"] or []})
    listed = tables[0] if len(tables) == 1 else f"{len(tables)} tables" if tables else ""
    source = tags.get("mirrorlake/source", "")
    reason = tags.get("mirrorlake/reason", "" if job else "by hand")
    parts = [job or listed, f"of {source}" if source and len(tables) > 1 else ""]
    words = " ".join(part for part in parts if part) or _checks(run["assetCheckSelection"] or [])
    return f"{words} ({reason})" if reason else words


def _checks(found: list[dict[str, Any]]) -> str:
    """The checks of a run that makes nothing."""
    if len(found) != 1:
        return f"{len(found)} checks"
    return f"{found[0]['name']} of {'.'.join(found[0]['assetKey']['path'][1:])}"


def _clock(seconds: float | None) -> str:
    at = datetime.fromtimestamp(seconds) if seconds else datetime.now()  # noqa: DTZ005, DTZ006
    return f"{at:%H:%M:%S}"
