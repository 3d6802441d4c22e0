"""A whole ``mirrorlake.yaml``, resolved: its sections, and its tables by the names people write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import Field, SecretStr

from mirrorlake.config.contract import Mirrored, TableContract, TenantTable
from mirrorlake.config.fields import Section
from mirrorlake.config.landing import LandingConfig
from mirrorlake.config.secrets import UnsetSecret
from mirrorlake.config.sections.readers import ReadersConfig
from mirrorlake.config.server import SourceConfig
from mirrorlake.config.settings import LakeConfig, LedgerConfig, PrivacyConfig, SparkConfig
from mirrorlake.config.spelling import (
    FOR_TENANTS,
    all_spellings,
    expand,
    find_each,
    find_named,
    of_tenants,
    unknown_name,
)
from mirrorlake.errors import ConfigError

SectionT = TypeVar("SectionT", bound=Section)


class Config(Section):
    """A whole ``mirrorlake.yaml``, resolved. Tables are sorted by name.

    What is read from a server (``sources``, ``tables``), what lands (``landings``,
    ``snapshots``) and what many databases have (``tenants``) are apart: nothing that queries a
    server for its table meets one that has none, or a thousand.
    """

    path: Path
    lake: LakeConfig
    ledger: LedgerConfig
    spark: SparkConfig
    privacy: PrivacyConfig
    readers: ReadersConfig = ReadersConfig()
    added: Mapping[str, Section] = {}
    """What the file says in the sections of capabilities; `section` finds one of them."""
    sources: dict[str, SourceConfig]
    tables: tuple[TableContract, ...]
    landings: Mapping[str, LandingConfig] = Field(default_factory=dict[str, LandingConfig])
    """By source; ``cluster`` is never absent, a folder's path is absolute."""
    snapshots: tuple[TableContract, ...] = ()
    """The contracts of mode ``snapshot``; their ``snapshot`` is never None."""
    tenants: tuple[TenantTable, ...] = ()
    """The tables that many databases have; apart from ``tables``, as one of them is no table of one
    server."""

    def section(self, kind: type[SectionT]) -> SectionT:
        """What the file says in a capability's section; its defaults where it says nothing."""
        return self.written_section(kind) or kind()

    def written_section(self, kind: type[SectionT]) -> SectionT | None:
        """The same of a section that has no defaults: None where the file has none."""
        return next((one for one in self.added.values() if isinstance(one, kind)), None)

    @property
    def mirrored(self) -> tuple[Mirrored, ...]:
        """All tables: those of servers, those of snapshots, and those of tenants."""
        return (*self.tables, *self.snapshots, *self.tenants)

    @property
    def in_bigquery(self) -> tuple[Mirrored, ...]:
        """All tables that are published in BigQuery."""
        return tuple(table for table in self.mirrored if table.in_bigquery)

    @property
    def datasets_of_tables(self) -> frozenset[str]:
        """The datasets of BigQuery that have these as deduped has them."""
        return frozenset(table.namespaces.deduped for table in self.in_bigquery)

    def chosen(self, names: Sequence[str]) -> tuple[TableContract, ...]:
        """The contracts of these names, as `table` takes them, or patterns; all without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no table at all.
        """
        names = expand(names, self.tables, self.path, [*self.snapshots, *self.tenants])
        self._refuse_tenants(names)
        if not self.tables and self.snapshots:
            raise ConfigError(
                f"{self.path} has only tables that are kept by snapshots: there is no server to "
                "query",
                next_step="`mirrorlake land` takes what has landed of them, again where the ledger "
                "was lost",
            )
        if not self.tables and self.tenants:
            raise ConfigError(
                f"{self.path} has only tables of tenants, which have no windows and no days",
                next_step=FOR_TENANTS,
            )
        if not self.tables:
            raise ConfigError(
                f"{self.path} has no tables", next_step="`mirrorlake init` writes their contracts"
            )
        return self._tables(names) if names else self.tables

    def _tables(self, names: Sequence[str]) -> tuple[TableContract, ...]:
        """What `table` finds for each of these names."""
        found = find_each(names, self.tables, self.path)
        return tuple(one or self.table(name) for one, name in zip(found, names, strict=True))

    def require_secrets(self, contracts: Iterable[Mirrored]) -> None:
        """See that every secret is set that reading these tables takes.

        Raises:
            ConfigError: some are not; all of them, one a line.
        """
        chosen = tuple(contracts)
        names = {name for contract in chosen for name in contract.servers}
        sources = [self.sources[name] for name in sorted(names)]
        wanted: list[SecretStr | None] = []
        for source in sources:
            wanted += [source.password, source.primary.password if source.primary else None]
        if any("hash" in contract.rules.values() for contract in chosen):
            wanted.append(self.privacy.hash_key)
        unset = dict.fromkeys(s for s in wanted if isinstance(s, UnsetSecret))
        if unset:
            lines = (f"{s.place}: the environment variable {s.name} is not set" for s in unset)
            names = ", ".join(s.name for s in unset)
            raise ConfigError("\n".join(lines), next_step=f"Set {names}, then try again")

    def table(self, name: str) -> TableContract:
        """The contract called ``source.db.table``, or ``db.table`` or ``table`` where only one is.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        found = find_named(name, self.tables, self.path)
        if found is not None:
            return found
        self._refuse_tenants([name])
        if find_named(name, self.snapshots, self.path) is not None:
            raise ConfigError(
                f"table {name!r} of {self.path} is kept by snapshots: there is no server to ask",
                next_step="`mirrorlake land` takes what has landed of it",
                table=name,
            )
        raise unknown_name(name, self.tables, self.path)

    def contract(self, name: str) -> TableContract:
        """The contract of this name, of any mode, spelled as in `table`.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        everything = (*self.tables, *self.snapshots)
        found = find_named(name, everything, self.path)
        if found is None:
            self._refuse_tenants([name])
            raise unknown_name(name, everything, self.path)
        return found

    def mirrored_table(self, name: str) -> Mirrored:
        """The contract of this name, of any mode or of tenants, spelled as in `table`.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        return self.mirrored_tables([name])[0]

    def mirrored_tables(self, names: Sequence[str]) -> list[Mirrored]:
        """The contracts of these names, each as `mirrored_table` finds it.

        Raises:
            ConfigError: a name is nobody's or several tables'.
        """
        of_tenants = self._of_tenants(names)
        found = find_each(names, (*self.tables, *self.snapshots), self.path)
        return [
            self.tenant_table(name) if name in of_tenants else one or self.contract(name)
            for one, name in zip(found, names, strict=True)
        ]

    def chosen_snapshots(self, names: Sequence[str]) -> tuple[TableContract, ...]:
        """The contracts of mode ``snapshot`` of these names or patterns; all without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no such table at all.
        """
        names = expand(names, self.snapshots, self.path, [*self.tables, *self.tenants])
        self._refuse_tenants(names)
        if not self.snapshots:
            raise ConfigError(
                f"{self.path} has no tables of mode snapshot",
                next_step="docs/snapshots.md shows how one is written",
            )
        return tuple(self.snapshot_table(name) for name in names) if names else self.snapshots

    def tenant_table(self, name: str) -> TenantTable:
        """The table of tenants called ``group.table``, or ``table`` where only one is.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        found = find_named(name, self.tenants, self.path)
        if found is None:
            what, listed_by = "table of tenants", "`mirrorlake tenants` lists them"
            raise unknown_name(name, self.tenants, self.path, what, listed_by)
        return found

    def chosen_tenants(self, names: Sequence[str]) -> tuple[TenantTable, ...]:
        """The tables of tenants of these names; all without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no such table at all.
        """
        if not self.tenants:
            raise ConfigError(
                f"{self.path} has no tables of tenants",
                next_step="docs/tenants.md shows how they are written",
            )
        names = expand(names, self.tenants, self.path)
        return tuple(self.tenant_table(name) for name in names) if names else self.tenants

    def named(self, names: Sequence[str]) -> list[str]:
        """These names, each pattern replaced by the names of the tables, of any mode, it means.

        Raises:
            ConfigError: a pattern means no table.
        """
        return expand(names, self.mirrored, self.path)

    def split(
        self, names: Sequence[str]
    ) -> tuple[tuple[TableContract, ...], tuple[TenantTable, ...]]:
        """The contracts of these names or patterns, and the tables of tenants among them; all
        without a name.

        Raises:
            ConfigError: a name is nobody's or several tables', or there is no table at all.
        """
        names = expand(names, [*self.tables, *self.tenants], self.path, self.snapshots)
        if not names:
            return (self.chosen(()) if self.tables or not self.tenants else ()), self.tenants
        of_tenants = self._of_tenants(names)
        others = [name for name in names if name not in of_tenants]
        return self._tables(others), self.split_tenants(names)

    def split_tenants(self, names: Sequence[str]) -> tuple[TenantTable, ...]:
        """The tables of tenants among these names: those that no other contract is called by.

        Raises:
            ConfigError: a name means several tables of tenants.
        """
        of_tenants = self._of_tenants(names)
        return tuple(self.tenant_table(name) for name in names if name in of_tenants)

    def _of_tenants(self, names: Sequence[str]) -> set[str]:
        """Those of these names that mean a table of tenants, and no other one."""
        known = set(names).intersection(all_spellings(self.tenants))
        return known.difference(all_spellings((*self.tables, *self.snapshots))) if known else known

    def _refuse_tenants(self, names: Sequence[str]) -> None:
        """See that no name is a table of tenants.

        Raises:
            ConfigError: one is.
        """
        for table in self.split_tenants(names):
            raise of_tenants(table.name)

    def snapshot_table(self, name: str) -> TableContract:
        """The contract of mode ``snapshot`` of this name, spelled as in `table`.

        Raises:
            ConfigError: none is called so (with the nearest name), or more than one.
        """
        found = find_named(name, self.snapshots, self.path)
        if found is None:
            self._refuse_tenants([name])
            if find_named(name, self.tables, self.path) is not None:
                raise ConfigError(
                    f"table {name!r} of {self.path} is read from its server: no snapshot of it "
                    "lands",
                    next_step="Leave it out: publish is for tables of mode snapshot",
                    table=name,
                )
            raise unknown_name(name, self.snapshots, self.path)
        return found
