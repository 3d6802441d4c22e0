"""Tables of mode snapshot in BigQuery: what the newest snapshots make of the table, deletes too."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mirrorlake.bigquery.check import check_published
from mirrorlake.bigquery.loads.publish import PublishOutcome, publish_table
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.failpoints import OF_BIGQUERY
from mirrorlake.landing.fold.publish import roll_table_back
from mirrorlake.operations.status.status import status_of
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import address, client_of, killed, left_over
from tests.integration.conftest import Place, share_session
from tests.integration.landing.test_landing import BIG, IDS, Feed, line
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live

Make = Callable[..., "PublishedFeed"]


class PublishedFeed(Feed):
    """A landing whose table is published in BigQuery."""

    def __init__(self, place: Place, cloud: Cloud, name: str, **settings: Any) -> None:
        super().__init__(place, name, complete="marker", **settings)
        self.cloud, self.dataset = cloud, f"{name}_d"
        path = self.workspace.config.path
        text = yaml.safe_load(path.read_text("utf-8"))
        text["bigquery"] = {**cloud.section(), "wait": "2m"}
        text["defaults"] = {"publish": ["lake", "bigquery"]}
        path.write_text(yaml.safe_dump(text), "utf-8")
        self.workspace = Workspace.open(load_config(path), spark=place.spark)
        for dataset in (self.dataset, f"{self.dataset}__views_clean"):
            cloud.make_dataset(dataset)

    def published(self) -> PublishOutcome:
        return publish_table(self.workspace, self.contract, client_of(self.workspace))

    def arrived(self) -> PublishOutcome:
        self.arrive()
        return self.published()

    def there(self) -> dict[int, tuple[Any, ...]]:
        """The rows, as Google's client reads the table; as `rows` gives the lake's."""
        found = list(self.cloud.client().list_rows(address(self.dataset)))
        rows = {
            int(r["id"]): (r["price"], r["_mirror_original"] or None, r["_mirror_snapshot"])
            for r in found
        }
        assert len(rows) == len(found)
        return rows

    def verdict(self) -> str:
        return check_published(self.workspace, self.contract, client_of(self.workspace)).verdict


@pytest.fixture
def feed(place: Place, cloud: Cloud) -> Make:
    def make(**settings: Any) -> PublishedFeed:
        return PublishedFeed(place, cloud, f"f{uuid.uuid4().hex[:8]}", **settings)

    return make


def many(*changed: str, left_out: int = 0) -> list[str]:
    """Twenty rows, of which some are as given and the first ones are left out."""
    given = {json.loads(one)["id"]: one for one in changed}
    rows = {str(n): line(n) for n in range(1 + left_out, 21)}
    return [*(rows | given).values()]


@pytest.mark.full
def test_snapshots_are_loaded_and_what_they_lack_is_gone(feed: Make) -> None:
    made = feed(missing="removed")
    made.land(IDS[0], many(line(BIG, None), line(2, on="0000-00-00")))
    first = made.arrived()
    assert (first.how, first.loaded, first.rows) == ("all rows", 21, 21)
    assert made.there()[2][1] == [{"column": "on", "text": "0000-00-00"}]
    made.land(IDS[1], many(line(BIG, "9.99"), line(2), left_out=3))
    second = made.arrived()
    assert (second.how, second.loaded, second.rows) == ("changes", 4, 19)
    assert made.there() == made.rows()
    assert made.there()[BIG][::2] == (Decimal("9.99"), IDS[1])
    view = address(f"{made.dataset}__views_clean")
    shown = list(made.cloud.client().query_and_wait(f"SELECT * FROM `{view}` WHERE id = 5"))
    assert [dict(row.items()) for row in shown] == [
        {
            "id": Decimal(5),
            "price": Decimal("1.50"),
            "on": shown[0]["on"],
            "mail": "********",
            "_mirror_original": [],
        }
    ]
    assert left_over(made.cloud, made.dataset) == []
    assert made.verdict() == "equal"
    assert made.published().state == "unchanged"


@pytest.mark.full
def test_kept_rows_days_that_leave_and_a_version_that_is_set_back(feed: Make) -> None:
    made = feed(missing="kept", retention_days=10, day="on")
    made.land(IDS[0], [line(n, on=f"2026-01-{n:02}") for n in range(21, 31)])
    made.arrived()
    made.land(IDS[3], [line(n, "7", on=f"2026-01-{n:02}") for n in range(25, 28)])
    second = made.arrived()
    assert made.there() == made.rows()
    assert second.rows == len(made.rows())
    with made.workspace.leased(made.contract) as leased:
        lease, at = leased.held_lease(), deduped_of(made.contract)
        roll_table_back(leased.lake, leased.ledger, at, lease=lease)
        leased.accept(at)
    assert made.published().state == "success"
    assert made.there() == made.rows()
    assert made.verdict() == "equal"


@pytest.mark.full
def test_land_publishes_and_status_says_so(
    feed: Make, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = feed()
    share_session(place, monkeypatch)
    made.land(IDS[0], many())
    path = str(made.workspace.config.path)
    found = CliRunner().invoke(cli, ["land", "--config", path, "--json"])
    [loaded] = json.loads(found.stdout)["bigquery"]
    assert (loaded["state"], loaded["rows"]) == ("success", 20)
    found = CliRunner().invoke(cli, ["land", "--config", path])
    assert "1 of 1 in BigQuery as the lake shows them" in found.stdout
    [status] = status_of(made.workspace.config, made.workspace.ledger, [made.contract])
    load = status.published["bigquery"]
    assert load is not None
    assert load.state == "success"
    found = CliRunner().invoke(cli, ["bigquery", "check", "t", "--config", path])
    assert (found.exit_code, "equal" in found.stdout) == (0, True)
    made.cloud.client().delete_dataset(f"{made.dataset}__views_clean", delete_contents=True)
    made.land(IDS[1], many(line(1, "2")))
    found = CliRunner().invoke(cli, ["land", "--config", path])
    assert (found.exit_code, "there is no dataset" in found.stderr) == (6, True)
    assert made.rows()[1][0] == Decimal(2)


@pytest.mark.full
@pytest.mark.parametrize("name", OF_BIGQUERY)
def test_a_killed_load_is_resumed(name: str, feed: Make) -> None:
    made = feed(missing="removed")
    made.land(IDS[0], many())
    made.arrived()
    made.land(IDS[1], many(line(20, "8"), left_out=2))
    made.arrive()
    killed(made.workspace.config.path, name)
    again = made.published()
    assert (again.how, again.rows) == ("changes", 18)
    assert made.there() == made.rows()
    assert left_over(made.cloud, made.dataset) == []
    assert made.verdict() == "equal"
