"""The jobs that a person on call starts: what they do, what they report, and how they fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import dagster as dg
import pyarrow as pa
import pytest
import yaml
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from dagster_mirrorlake.checks.repair_links import repair_links
from dagster_mirrorlake.location import load_definitions
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.lake_tables import deduped_of
from tests.location.conftest import ROOT, Location

TABLES = {
    "orders": {
        "mode": "incremental",
        "key": ["id"],
        "cursor": "at",
        "start": "2024-05-01",
        "columns": {"email": {"pii": "mask"}},
    },
    "kinds": {"mode": "full", "key": ["id"]},
    "gone": {"mode": "full", "key": ["id"]},
}
JOBS = {"sync", "backfill_errored", "prove", "repair", "refold", "hold", "release"}
MENDED = {
    "exact_match": "repair",
    "row_count": "repair",
    "unique_key": "repair",
    "contract": "refold",
    "matches_deduped": "refold",
    "gaps": "backfill_errored",
}
ORIGIN = ManagedGrpcPythonEnvCodeLocationOrigin(
    LoadableTargetOrigin(python_file="definitions.py"), "our lake"
)
EXACT = "deduped/s/jobs/orders:exact_match"


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE jobs")
        cursor.execute("USE jobs")
        cursor.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, email VARCHAR(40), at DATETIME NOT NULL, "
            "KEY (at))"
        )
        cursor.execute("CREATE TABLE kinds (id INT PRIMARY KEY, name VARCHAR(9))")
        cursor.execute(
            "INSERT INTO orders SELECT seq, CONCAT('secret', seq, '@example.com'), "
            "'2024-05-01' + INTERVAL seq HOUR FROM seq_1_to_50"
        )
        cursor.execute("INSERT INTO kinds VALUES (1, 'a')")
    return location_for({"jobs": {"tables": TABLES}})


class Runs:
    """Runs of the location's jobs on one instance."""

    def __init__(self, location: Location, instance: dg.DagsterInstance) -> None:
        self.location, self.instance = location, instance
        self.defs = load_definitions(location.path)

    def run(self, job: str, **config: Any) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            run_config={"ops": {job: {"config": config}}},
            raise_on_error=False,
        )

    def said(self, result: dg.ExecuteInProcessResult) -> str:
        """Everything that Dagster keeps of a run."""
        return "\n".join(
            f"{entry.user_message} {entry.dagster_event}"
            for entry in self.instance.all_logs(result.run_id)
        )

    def logged(self, result: dg.ExecuteInProcessResult) -> list[str]:
        return [
            e.user_message for e in self.instance.all_logs(result.run_id) if not e.dagster_event
        ]


@pytest.fixture
def runs(location: Location) -> Iterator[Runs]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Runs(location, instance)


def shown(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """The metadata of a job's one step, whether it failed or not."""
    for event in result.all_events:
        if event.is_successful_output:
            metadata = event.step_output_data.metadata
            break
        if event.is_step_failure:
            data = event.step_failure_data.user_failure_data
            assert data is not None, event.step_failure_data.error
            metadata = data.metadata
            break
    else:
        raise AssertionError("the step said nothing")
    return {name: value.value for name, value in metadata.items()}


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [event for event in result.all_events if event.is_step_failure]
    data = event.step_failure_data.user_failure_data
    assert data is not None, event.step_failure_data.error
    return str(data.description)


def verdicts(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """What was recorded of checks as a whole, by asset and name."""
    return {
        f"{e.asset_key.to_user_string()}:{e.check_name}": e.passed
        for e in result.get_asset_check_evaluations()
        if e.partition is None
    }


def damage(location: Location) -> None:
    """A row of deduped is lost, and another has an address that MySQL has not."""
    contract = location.config.table("orders")
    table = Lake(location.config.lake).load(deduped_of(contract))
    assert table is not None
    changed = table.scan("id = 8").to_arrow()
    place = changed.schema.get_field_index("email")
    changed = changed.set_column(
        place, changed.schema.field(place), pa.array(["other"], changed.schema.field(place).type)
    )
    table.delete("id = 7 or id = 8")
    table.append(changed.cast(table.schema().as_arrow()))


def test_every_job_is_there_with_safe_defaults(location: Location) -> None:
    defs = load_definitions(location.path)
    dg.Definitions.validate_loadable(defs)
    jobs = {job.name for job in defs.jobs or []}
    assert jobs == JOBS
    for name in JOBS:
        job = defs.resolve_job_def(name)
        assert job.description
        # All tables are one source's, so no other run of it starts beside.
        tagged = name not in ("hold", "release")
        assert job.tags.get("mirrorlake/source") == ("s" if tagged else None)


@pytest.mark.parametrize(
    ("job", "config", "words"),
    [
        ("repair", {}, "name at least one"),
        ("refold", {}, "name tables, or let `damaged` find"),
        ("sync", {"accept_smaller": True}, "name them"),
        ("sync", {"tables": ["order"]}, "orders"),
        ("prove", {"tables": ["nothing.*"]}, "no table of mirrorlake.yaml is called 'nothing.*'"),
        ("prove", {"tables": ["orders"], "day": "yesterday"}, "'yesterday' is no day"),
        ("backfill_errored", {"first": "31.1.2026"}, "Write YYYY-MM-DD"),
        ("hold", {"source": "z"}, "Sources are: s"),
        ("hold", {"source": "s", "hours": 0.0}, "a moment to come"),
        ("release", {"source": "z"}, "Sources are: s"),
    ],
)
def test_what_a_person_got_wrong_is_said_in_one_sentence(
    runs: Runs, job: str, config: dict[str, Any], words: str
) -> None:
    result = runs.run(job, **config)
    assert not result.success
    assert words in failure(result)


def test_every_setting_is_documented(location: Location) -> None:
    page = (ROOT / "docs" / "jobs.md").read_text("utf-8")
    defs = load_definitions(location.path)
    for name in JOBS:
        (node,) = defs.resolve_job_def(name).nodes
        settings = set(node.definition.config_schema.config_type.fields)
        assert settings
        assert [one for one in settings if f"`{one}`" not in page] == []
        assert f"| `{name}` |" in page


@pytest.mark.parametrize("check", [*MENDED, "drift"])
def test_a_failed_check_leads_to_a_job_whose_config_is_filled_in(
    location: Location, check: str
) -> None:
    """As the UI reads the link; the job takes the config."""
    words = "MySQL's columns changed since the load" if check == "drift" else "2 rows differ"
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(ORIGIN, "__repository__"), "__ASSET_JOB")
    run = dg.DagsterRun(job_name="__ASSET_JOB", remote_job_origin=origin)
    contract = location.config.table("orders")
    found = repair_links(run, MirroredTable(contract), check, words)
    assert found is not None
    # What the page shows is a label: the address would widen it.
    shown = re.fullmatch(r"\[Put it right: (\w+)\]\((/\S+)\)\n\n(.+)", found.words_of(words))
    assert shown is not None
    assert (shown[1], shown[3]) == (MENDED.get(check, "sync"), words)
    link = urlsplit(shown[2])
    job = link.path.removeprefix("/locations/our%20lake/jobs/").removesuffix("/playground/setup")
    assert job == MENDED.get(check, "sync")
    query = {name: value for name, (value,) in parse_qs(link.query).items()}
    assert query["tags[0][key]"] == "mirrorlake/source"
    assert query["tags[0][value]"] == "s"
    config = yaml.safe_load(query["config"])
    assert yaml.safe_load(found.metadata[f"run config of {job}"].text) == config
    assert dg.validate_run_config(load_definitions(location.path).resolve_job_def(job), config)
    assert config["ops"][job]["config"]["tables"] == ["s.jobs.orders"]
    assert found.metadata["or in a shell"].startswith("mirrorlake ")


@pytest.mark.parametrize("words", ["Not decidable yet: 3 rows …", "Nothing is mirrored yet"])
def test_what_is_too_new_is_for_a_load_and_not_for_a_repair(location: Location, words: str) -> None:
    run = dg.DagsterRun(job_name="__ASSET_JOB")
    table = MirroredTable(location.config.table("orders"))
    links = repair_links(run, table, "exact_match", words)
    assert links is not None
    assert links.command == "mirrorlake sync s.jobs.orders"


def test_what_no_job_puts_right_has_no_link(location: Location) -> None:
    run = dg.DagsterRun(job_name="__ASSET_JOB")
    contract = location.config.table("orders")
    assert repair_links(run, MirroredTable(contract), "no_pii", "email is shown") is None
    off = contract.model_copy(update={"repair": "off"})
    assert repair_links(run, MirroredTable(off), "exact_match", "2 rows differ") is None


def test_a_hold_and_its_end(runs: Runs) -> None:
    ledger = Ledger(runs.location.config.ledger.url)
    until = datetime.now(UTC) + timedelta(hours=2)
    assert runs.run("hold", source="s", hours=2.0, reason="new disks").success
    held = ledger.held("s")
    assert held is not None
    assert (held.reason, abs(held.until - until) < timedelta(minutes=1)) == ("new disks", True)
    assert shown(runs.run("release", source="s"))["outcome"] == "no longer held"
    assert ledger.held("s") is None
    assert shown(runs.run("release", source="s"))["outcome"] == "it was not held"


@pytest.mark.alone
@pytest.mark.full
def test_a_damaged_table_goes_red_is_repaired_and_goes_green(runs: Runs) -> None:
    """One table of the three is not in MySQL: it fails, and stops no other."""
    synced = runs.run("sync")
    assert failure(synced).startswith("table s.jobs.gone: failed: ")
    assert "| s.jobs.orders | synced | initial window, 50 rows" in shown(synced)["tables"]
    assert "| s.jobs.kinds | synced |" in shown(synced)["tables"]
    lines = [line for line in runs.logged(synced) if "orders" in line and "synced" in line]
    assert len(lines) == 1

    assert runs.run("sync", tables=["orders", "kind?"]).success
    proved = runs.run("prove", tables=["*.orders"])
    assert "| s.jobs.orders | equal |" in shown(proved)["tables"]
    assert verdicts(proved) == {
        EXACT: True,
        "raw/s/jobs/orders:intact": True,
        "clean/s/jobs/orders:matches_deduped": True,
    }

    damage(runs.location)
    red = runs.run("prove", tables=["orders"])
    assert failure(red) == (
        "table s.jobs.orders: different: exact_match: 2 rows differ between MySQL and the lake"
    )
    assert verdicts(red)[EXACT] is False

    looked = runs.run("repair", tables=["orders"])
    assert looked.success
    assert "2 rows would be read again from MySQL (1 changed, 1 missing)" in shown(looked)["tables"]
    assert runs.run("prove", tables=["orders"]).success is False, "a dry run wrote something"

    repaired = runs.run("repair", tables=["orders"], dry_run=False)
    assert repaired.success
    assert "| s.jobs.orders | equal | 2 rows read again, 0 gone" in shown(repaired)["tables"]
    recorded = verdicts(repaired)
    assert recorded[EXACT]
    assert recorded["deduped/s/jobs/orders:row_count"]
    assert recorded["clean/s/jobs/orders:matches_deduped"]
    assert runs.run("prove", tables=["orders"]).success

    refolded = runs.run("refold", tables=["orders"])
    assert "| s.jobs.orders | refolded | " in shown(refolded)["tables"]
    assert shown(runs.run("refold", damaged=True, tables=["orders"]))["tables"].count("intact") == 1
    for one in (synced, proved, red, looked, repaired, refolded):
        assert "secret" not in runs.said(one)


@pytest.mark.alone
@pytest.mark.full
def test_days_without_a_load_are_loaded(
    server: MariaDB, location_for: Callable[[dict[str, Any]], Location]
) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE late")
        cursor.execute("CREATE TABLE late.kinds (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO late.kinds VALUES (1)")
    location = location_for({"late": {"tables": {"kinds": {"mode": "full", "key": ["id"]}}}})
    with dg.DagsterInstance.ephemeral() as instance:
        runs = Runs(location, instance)
        nothing = runs.run("backfill_errored")
        assert shown(nothing)["tables"] == "No day failed: nothing was loaded."
        filled = runs.run("backfill_errored", missing_too=True)
        assert "| s.late.kinds | loaded |" in shown(filled)["tables"]
        assert [line for line in runs.logged(filled) if "s.late.kinds: loaded" in line]
