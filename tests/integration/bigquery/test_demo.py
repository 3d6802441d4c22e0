"""The demo's tables in BigQuery, real flights and a shop that changes: every row is MySQL's, every
clean view shows its masks, and nobody's personal data is in one."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
import yaml

from demo import nyc
from demo.contract import demo_contract
from demo.oracle import check_clean, compare_rows
from demo.oracle_text import read_source
from demo.writer import LiveWriter
from mirrorlake.bigquery.loads.publish import PublishOutcome
from mirrorlake.config import TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.trial import shop_rows
from mirrorlake.trial.shop import create_shop
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import checked, published, synced
from tests.integration.conftest import HASH_KEY, PASSWORD, Place
from tests.integration.operations.test_mirror import clean_rows, without_keys
from tests.support.bigquery.cloud import Cloud

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
CHANGES = 800
FEW = 4_000
"""Rows of each real table: five days of flights."""
DATASETS = ("nyc_nyc", "shop_shop")
TELLING = ("email", "phone", "street", "holder", "iban", "card_number")
"""Columns of which a value tells a person, whoever finds it where."""
SHORT = 5
"""Texts of so many characters, such as a wrong phone number "0", are in many a column by chance."""


@dataclass
class There:
    """The demo in BigQuery: after a first load, and after live changes of the shop."""

    server: MariaDB
    workspace: Workspace
    place: Place
    writer: LiveWriter
    cloud: Cloud
    again: dict[str, PublishOutcome]

    @property
    def contracts(self) -> tuple[TableContract, ...]:
        return self.workspace.config.tables

    def surplus(self, contract: TableContract) -> list[tuple[str, ...]]:
        """Keys of rows that MySQL deleted, and that a mirror of this mode still has."""
        if contract.source != "shop" or contract.mode in ("full", "binlog"):
            return []
        return sorted(self.writer.journal.surplus[contract.table])

    def source(self, contract: TableContract, hidden: Set[str]) -> Any:
        with self.server.admin(contract.database) as admin:
            return read_source(admin, contract.database, contract.table, hidden)

    def view(self, contract: TableContract) -> pa.Table:
        """All rows of its clean view, in the types that the lake's clean has."""
        name = f"{contract.namespaces.deduped}__views_clean.{contract.table}"
        found = self.cloud.client().query_and_wait(f"SELECT * FROM `{name}`")
        schema = clean_rows(self.place, contract).schema
        return pa.Table.from_pylist([dict(row.items()) for row in found], schema=schema)


@pytest.fixture(scope="module")
def there(server: MariaDB, place: Place, running_cloud: Cloud) -> Iterator[There]:
    with pytest.MonkeyPatch.context() as patch:
        read = nyc.read_nyc
        patch.setattr(nyc, "read_nyc", lambda table: read(table).slice(0, FEW))
        # DuckDB 1.5.5, in which the emulator keeps its tables, writes -0.0 as 0.0 into Parquet's
        # dictionaries. On Google Cloud, test_google_alone.py has it.
        double = shop_rows._some_double  # pyright: ignore[reportPrivateUsage]
        patch.setattr(shop_rows, "_some_double", lambda rng: double(rng) or 0.0)
        patch.setenv("MIRRORLAKE_DEMO_PASSWORD", PASSWORD)
        patch.setenv("MIRRORLAKE_HASH_KEY", HASH_KEY)
        for name, value in running_cloud.environment().items():
            patch.setenv(name, value)
        for dataset in DATASETS:
            running_cloud.make_dataset(dataset)
            running_cloud.make_dataset(f"{dataset}__views_clean")
        with server.admin() as admin:
            nyc.load_nyc(admin)
            create_shop(admin, customers=600)
        chosen = "defaults:\n  verify: false\n  publish: [lake, bigquery]"
        contract = demo_contract(server.port).replace("defaults:", chosen, 1)
        where: dict[str, dict[str, Any]] = {
            "bigquery": running_cloud.section(),
            "lake": {"warehouse": "lake"},
        }
        where["spark"] = {"folds_from": 0}  # else small layers are made again, and loaded whole
        where["ledger"] = {"url": "sqlite:///ledger.db"}
        path = place.folder / "demo.yaml"
        path.write_text(f"{contract}\n{yaml.safe_dump(where)}", encoding="utf-8")
        workspace = Workspace.open(load_config(path), spark=place.spark)
        for one in workspace.config.tables:
            assert synced(workspace, one.name).state == "success"
        writer = LiveWriter(server.admin)
        writer.journal.mark()
        writer.run(CHANGES)
        ours = [one.name for one in workspace.config.tables if one.source == "shop"]
        again = {name: synced(workspace, name) for name in ours}
        yield There(server, workspace, place, writer, running_cloud, again)


def assert_rows_are_mysqls(there: There) -> None:
    for contract in there.contracts:
        withheld = {name for name, rule in contract.rules.items() if rule == "drop"}
        table = there.workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
        assert table is not None
        lake = arrow_schema(table.schema(), field_ids=False)
        schema = pa.schema([field for field in lake if field.name not in withheld])
        name = f"{contract.namespaces.deduped}.{contract.table}"
        found = there.cloud.client().query_and_wait(f"SELECT * FROM `{name}`")
        rows = [dict(row.items()) for row in found]
        hidden = withheld | contract.excluded
        assert not any(hidden & row.keys() for row in rows)
        found = compare_rows(
            there.source(contract, hidden),
            contract.key,
            pa.Table.from_pylist(rows, schema=schema),
            hidden,
        )
        assert found.equal_but_for(there.surplus(contract)), found.describe()


def test_every_row_is_what_mysql_prints(there: There) -> None:
    assert "changes" in {one.how for one in there.again.values()}
    assert_rows_are_mysqls(there)


def test_every_clean_view_shows_its_masks(there: There) -> None:
    for contract in there.contracts:
        clean, gone = there.view(contract), there.surplus(contract)
        kept = without_keys(clean, contract.key, gone)
        assert clean.num_rows - kept.num_rows == len(gone)
        found = check_clean(
            there.source(contract, contract.excluded),
            *(contract.key, kept, contract.rules, HASH_KEY.encode(), contract.excluded),
        )
        assert found.equal, found.describe()


def test_no_personal_data_is_in_a_clean_view(there: There) -> None:
    told: set[str | None] = set()
    for contract in there.contracts:
        source = there.source(contract, set())
        ruled = {*contract.rules, *contract.excluded} & {*TELLING}
        told |= {text for name in ruled for text in source.rows[name].to_pylist()}
    told = {text for text in told if text and len(text) > SHORT}
    assert len(told) > 1000
    for contract in there.contracts:
        rows = there.view(contract)
        for name in rows.column_names:
            cells = {str(cell) for cell in rows[name].to_pylist()}
            assert not cells & told, f"{contract.name}: {name}: {len(cells & told)} cells"


def test_the_check_says_equal_of_all(there: There) -> None:
    for contract in there.contracts:
        assert checked(there.workspace, contract.name).verdict == "equal", contract.name
        assert published(there.workspace, contract.name).state == "unchanged"
