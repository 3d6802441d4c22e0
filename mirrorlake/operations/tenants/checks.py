"""Checks of tenants: is what the lake has of each what MySQL has now?

Three things are compared, by code that has no part in loading or folding: each tenant's rows in
MySQL, digested by the server; the rows of its newest copy in raw, with what its log says since,
digested by Spark; and deduped beside that, row by row. A tenant that MySQL changed since it was
read is undecided: what the lake has is of then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.load.tenants.digests import TenantDigests, read_digests
from mirrorlake.merge.statements import original_of, unplaced_key
from mirrorlake.merge.tenant_due import read_due
from mirrorlake.merge.tenant_fold_plan import is_shown
from mirrorlake.merge.tenant_shapes import (
    LISTED,
    LOG_LOADS,
    TENANTS,
    TenantShapes,
    listed,
    places_sql,
    read_shapes,
    rows_sql,
)
from mirrorlake.operations.tenants.clean_checks import clean_verdicts, with_clean
from mirrorlake.operations.tenants.follow import find_changed_tenants
from mirrorlake.operations.tenants.names import refuse_unknown
from mirrorlake.operations.tenants.survey import TenantSurvey, survey_tenants
from mirrorlake.operations.tenants.verdicts import CleanChecked, TenantsChecked, TenantVerdict
from mirrorlake.proof.comparing.report import digest_text
from mirrorlake.proof.forms.rows import lake_sum
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import (
    DATABASE,
    DELETED,
    EVENT,
    LOAD,
    OP,
    ORIGINAL,
    SEQ,
    SOURCE,
)
from mirrorlake.sources.mysql.changes.change_stamps import ChangeStamp, why_unchanged
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import terms_of
from mirrorlake.table.tenants_in_log import log_loads_of
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


def check_tenants(
    workspace: Workspace, table: TenantTable, databases: frozenset[str] = frozenset()
) -> TenantsChecked:
    """Compare tenants with MySQL, and keep what was found of each; all of them by default.

    Raises:
        ConfigError: there is no such tenant.
        LakeError: Spark, the catalog or the storage failed.
        LeaseHeld: another run works on the table.
        SourceHeld: a person asked us to leave all of its sources alone.
    """
    began = datetime.now(UTC)
    with workspace.leased(table) as leased:
        settle_loads(leased, table)
        known = leased.ledger.tenants(table.name)
        _refuse_none(table, known)
        refuse_unknown(table.name, databases, known)
        known = {p: t for p, t in known.items() if not databases or p[1] in databases}
        survey = survey_tenants(leased, table)
        survey.refuse_all_held(table)
        unread = sorted(
            f"{source}.{database}"
            for source, database in {*survey.plans, *survey.failed} - known.keys()
            if not databases or database in databases
        )
        clean, verdicts = _Check(leased, table, known, survey, not databases).run()
        records = [
            replace(
                known[v.source, v.database],
                verdict=v.verdict,
                verdict_words=v.words or None,
                checked_at=began,
            )
            for v in verdicts
            if (v.source, v.database) in known
        ]
        leased.ledger.record_tenants(table.name, records)
    left_out = {one.label: one.why for one in survey.left_out}
    return TenantsChecked(table.name, clean, verdicts, tuple(unread), survey.lost, left_out)


def _refuse_none(table: TenantTable, known: Mapping[TenantPlace, Tenant]) -> None:
    if not known:
        raise ConfigError(
            f"table {table.name} has no tenant that was read",
            table=table.name,
            next_step="`mirrorlake sync` reads them",
        )


@dataclass(frozen=True)
class _Copies:
    """Newest copies in one raw table whose rows are digested by one SQL.

    Attributes:
        key: SQL of what the versions of one row share, where logs continue these copies.
    """

    raw: str
    digest: str
    tenants: list[Tenant]
    key: tuple[str, ...] = ()


@dataclass
class _Check:
    workspace: Workspace
    table: TenantTable
    known: Mapping[TenantPlace, Tenant]
    survey: TenantSurvey
    everything: bool
    changed: set[TenantPlace] = field(default_factory=set[TenantPlace])
    """Tenants of whose logs something may be new since they were read."""

    def run(self) -> tuple[CleanChecked, tuple[TenantVerdict, ...]]:
        comparable = {
            place: plan
            for place, plan in self.survey.plans.items()
            if (tenant := self.known.get(place)) is not None
            and tenant.load_id is not None
            and tenant.version == plan.version.hash
            and tenant.terms == terms_of(plan)
        }
        mysql, lake = self._digest(comparable)
        unequal = {p: plan for p, plan in comparable.items() if mysql.tallies.get(p) != lake.get(p)}
        self.changed = find_changed_tenants(self.workspace, self.table, self.survey, unequal)
        differing = self._compare_deduped()
        checked, clean = clean_verdicts(self.workspace, self.table, self.known)
        found = [
            with_clean(
                self._verdict(tenant, mysql, lake.get(place), differing.get(place, 0)),
                clean.get(place),
            )
            for place, tenant in self.known.items()
        ]
        words = "deduped has rows of it, and the ledger knows no load of them"
        found += [
            TenantVerdict(*place, "different", None, None, rows, words)
            for place, rows in sorted(differing.items())
            if place not in self.known
        ]
        if self.everything:
            found += [
                TenantVerdict(*place, verdict, None, None, 0, words)
                for place, (verdict, words) in sorted(clean.items())
                if place not in self.known and place not in differing
            ]
        return checked, tuple(found)

    def _verdict(
        self, tenant: Tenant, digests: TenantDigests, lake: Tally | None, differing: int
    ) -> TenantVerdict:
        mysql, form = digests.tallies.get(tenant.place), digests.forms.get(tenant.place)
        known = form is not None and form.fingerprint == tenant.form
        recorded = tenant.digest if known and tenant.log_place is None else None
        verdict, words = self._decide(tenant, recorded, mysql, lake, differing)
        return TenantVerdict(
            source=tenant.source,
            database=tenant.database,
            verdict=verdict,
            mysql_rows=None if mysql is None else mysql.rows,
            lake_rows=None if lake is None else lake.rows,
            differing=differing,
            words=words,
        )

    def _decide(
        self,
        tenant: Tenant,
        recorded: str | None,
        mysql: Tally | None,
        lake: Tally | None,
        differing: int,
    ) -> tuple[str, str]:
        waits = tenant.folded != tenant.load_id or tenant.place in self.unfolded
        if differing and tenant.load_id is not None and waits:
            # A run died in between: deduped has an older copy, and raw a newer one.
            return "undecided", "its newest copy is not folded yet: sync, then check again"
        if differing:
            return (
                "different",
                f"deduped differs from its newest copy in {plural(differing, 'row')}",
            )
        if lake is not None and recorded not in (None, digest_text(lake)):
            return "different", "raw has other rows than MySQL had when they were read"
        if tenant.gone_at is not None:
            # By the contract it stays as it was: there is nothing to compare it with.
            return "gone", f"{self._why_gone(tenant)}; deduped has its newest copy"
        if mysql is None or lake is None:
            return "undecided", self._why_not(tenant)
        if mysql == lake:
            return "equal", ""
        if self._is_unchanged(tenant):
            return "different", "MySQL has other rows, and shows no change since they were read"
        if tenant.error is not None:
            return "undecided", f"MySQL changed since it was read, and it can't be: {tenant.error}"
        return "undecided", "MySQL changed since it was read: sync, then check again"

    def _why_gone(self, tenant: Tenant) -> str:
        if tenant.source not in self.table.sources or not self.table.has(tenant.database):
            return "the contract no longer includes it"
        return "its database, or table, is gone"

    def _why_not(self, tenant: Tenant) -> str:
        error = self.survey.failed.get(tenant.place) or self.survey.lost.get(tenant.source)
        if error is not None:
            return str(error)
        if tenant.load_id is None:
            return tenant.error or "it was never read"
        changed = "its table, or its contract, changed since it was read"
        if tenant.error is not None:
            return f"{changed}, and it can't be: {tenant.error}"
        return f"{changed}: sync, then check again"

    @cached_property
    def unfolded(self) -> frozenset[TenantPlace]:
        """Tenants of whose logs raw has what deduped has not."""
        return read_due(self.workspace.ledger, deduped_of(self.table)).places

    def _is_unchanged(self, tenant: Tenant) -> bool:
        if tenant.log_place is not None:
            return tenant.place not in self.changed
        now = self.survey.stamps.get(tenant.place)
        before = ChangeStamp.from_json(tenant.shown) if tenant.shown else None
        return now is not None and before is not None and why_unchanged(before, now) is not None

    # --- MySQL and raw ----------------------------------------------------------------------------

    def _digest(
        self, plans: Mapping[TenantPlace, ResolvedTable]
    ) -> tuple[TenantDigests, dict[TenantPlace, Tally]]:
        """What MySQL says of its tables now, and rows and digests of the newest copies in raw."""
        mysql = read_digests(self.workspace, plans.values())
        for source, error in mysql.lost.items():
            self.survey.lost.setdefault(source, error)
        self.survey.failed |= mysql.failed
        copies: dict[tuple[str, str, tuple[str, ...]], _Copies] = {}
        for place, form in mysql.forms.items():
            plan, digest = plans[place], form.lake_digest
            key = _version_key(plan) if self.known[place].log_place is not None else ()
            parts = (plan.raw.sql, digest, list[Tenant](), key)
            of_form = copies.setdefault((plan.raw.name, digest, key), _Copies(*parts))
            of_form.tenants.append(self.known[place])
        lake: dict[TenantPlace, Tally] = {}
        for found in copies.values():
            lake |= dict.fromkeys((tenant.place for tenant in found.tenants), NOTHING)
            lake |= self._raw_tallies(found)
        return mysql, lake

    def _raw_tallies(self, copies: _Copies) -> dict[TenantPlace, Tally]:
        places = [tenant.place for tenant in copies.tenants]
        where = f" WHERE ({places_sql(places)})" if len(places) <= LISTED else " WHERE true"
        spark = self.workspace.spark.get()
        loads = log_loads_of(self.workspace.ledger, self.table, copies.tenants)
        rows = _of_copies(copies, where) if not copies.key else _with_logs(copies, where)
        with spark_errors(self.table.name), listed(spark, copies.tenants, loads):
            found = spark.sql(
                f"SELECT s_, d_, count(*), {lake_sum('h_')} FROM ({rows}) GROUP BY s_, d_"  # noqa: S608
            ).collect()
        return {(str(s), str(d)): Tally(int(n), int(h or 0)) for s, d, n, h in found}

    # --- deduped ----------------------------------------------------------------------------------

    def _compare_deduped(self) -> dict[TenantPlace, int]:
        """How many rows deduped has of each tenant that its newest copy has not, and the other
        way."""
        shapes = read_shapes(self.workspace, self.table)
        deduped = self.workspace.lake.load(deduped_of(self.table))
        if deduped is None or not shapes.tables:
            return {}
        shown = {p: t for p, t in self.known.items() if is_shown(self.table, t)}
        spark = self.workspace.spark.get()
        loads = log_loads_of(self.workspace.ledger, self.table, [*shown.values()])
        with spark_errors(self.table.name), listed(spark, shown.values(), loads):
            return self._count_differing(spark, shapes, shown)

    def _count_differing(
        self,
        spark: SparkSession,
        shapes: TenantShapes,
        shown: Mapping[TenantPlace, Tenant],
    ) -> dict[TenantPlace, int]:
        copies = rows_sql(self.table, shapes, shown)
        cells = [_comparable(name, kind) for name, kind in shapes.stored]
        cells += [ORIGINAL] if shapes.originals else []
        columns = ", ".join(f"{cell} AS c{n}_" for n, cell in enumerate(cells))
        names = ", ".join(f"c{n}_" for n in range(len(cells)))
        place = [name for name, _ in shapes.stored]
        source, database = (f"c{place.index(name)}_" for name in (SOURCE, DATABASE))
        where = "" if self.everything else f" WHERE {places_sql(self.known)}"
        of_copies = f"SELECT {columns}, 1 AS side_ FROM ({copies}) UNION ALL "  # noqa: S608
        of_copies = of_copies if copies else ""
        found = spark.sql(
            f"SELECT {source}, {database}, sum(abs(n_)) FROM (SELECT {names}, sum(side_) AS n_"  # noqa: S608
            f" FROM ({of_copies}SELECT {columns}, -1 AS side_ FROM"
            f" {deduped_of(self.table).sql}{where})"
            f" GROUP BY {names} HAVING sum(side_) <> 0) GROUP BY 1, 2"
        ).collect()
        return {(str(s), str(d)): int(n) for s, d, n in found}


def _of_copies(copies: _Copies, where: str) -> str:
    """SQL of the rows of copies, with their digests."""
    return (
        f"SELECT {SOURCE} AS s_, {DATABASE} AS d_, {copies.digest} AS h_ FROM {copies.raw}"  # noqa: S608
        f" LEFT SEMI JOIN {TENANTS} m ON {SOURCE} = m.source"
        f" AND {DATABASE} = m.database_name AND {LOAD} = m.load_id{where}"
    )


def _with_logs(copies: _Copies, where: str) -> str:
    """The same of copies that logs continue: of each key what was seen last, unless it is gone."""
    key = ", ".join(f"{part} AS k{number}_" for number, part in enumerate(copies.key))
    keys = ", ".join(f"k{number}_" for number in range(len(copies.key)))
    of_log = f"{OP} IS NOT NULL AND {SEQ} > m.seq AND (m.until IS NULL OR {SEQ} <= m.until)"
    versions = (
        f"SELECT {SOURCE} AS s_, {DATABASE} AS d_, {key}, {copies.digest} AS h_, {DELETED} AS g_,"  # noqa: S608
        f" struct({SEQ}, coalesce({EVENT}, 0)) AS o_ FROM {copies.raw}"
        f" LEFT SEMI JOIN {TENANTS} m ON {SOURCE} = m.source AND {DATABASE} = m.database_name"
        f" AND ({LOAD} = m.load_id OR ({of_log})){where}"
        f" AND ({OP} IS NULL OR {LOAD} IN (SELECT load_id FROM {LOG_LOADS}))"
    )
    return (
        "SELECT s_, d_, h_ FROM (SELECT s_, d_, max_by(h_, o_) AS h_, max_by(g_, o_) AS g_"  # noqa: S608
        f" FROM ({versions}) GROUP BY s_, d_, {keys}) WHERE NOT g_"
    )


def _version_key(plan: ResolvedTable) -> tuple[str, ...]:
    """SQL of what the versions of one row share in raw, beside their tenant."""
    return (*map(as_sql_identifier, plan.key), *map(original_of, unplaced_key(plan)))


def _comparable(name: str, kind: str) -> str:
    """SQL of a cell by which two rows are compared: SQL calls 0.0 and -0.0 equal, and their texts
    tell them apart."""
    column = as_sql_identifier(name)
    return f"CAST({column} AS STRING)" if kind in ("float", "double") else column
