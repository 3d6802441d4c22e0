"""A table as the face has it: its contract, and what Dagster shows of its layers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Generic, TypeVar

import dagster as dg
from typing_extensions import override

from dagster_mirrorlake.names import Names
from dagster_mirrorlake.table_places import TablePlace
from dagster_mirrorlake.translator import Layer, LayerData, MirrorlakeTranslator
from mirrorlake.config import Mirrored, TableContract
from mirrorlake.config.partitions import day_of, hours_of, partition_of
from mirrorlake.errors import ConfigError

LAYERS: tuple[Layer, ...] = ("raw", "deduped", "clean")
FOLDED: tuple[Layer, ...] = ("deduped", "clean")
_KINDS = {"0 0 * * *": "day", "0 * * * *": "hour", "0 0 1 * *": "month"}
"""What partitions are, by when they begin."""
UPSTREAM: Mapping[Layer, Layer] = {
    "raw": "source",
    "deduped": "raw",
    "clean": "deduped",
    "bigquery": "deduped",
}


def layer_named(name: str) -> Layer:
    """The layer of a chain that has this name.

    Raises:
        StopIteration: none has.
    """
    return next(layer for layer in LAYERS if layer == name)


ContractT = TypeVar("ContractT", bound=Mirrored)


class MirroredChain(Generic[ContractT]):
    """What is mirrored, as Dagster has it: an asset for each layer."""

    contract: ContractT
    """What the contract file says."""
    names: Names
    """What the mirror's definitions are called."""

    def _spec(self, layer: Layer) -> dg.AssetSpec:
        """The asset of a layer, but for its upstream.

        Raises:
            ConfigError: the translator gives it what it can't have.
        """
        raise NotImplementedError

    @cached_property
    def specs(self) -> Mapping[Layer, dg.AssetSpec]:
        """The asset of each layer, the source's first; each depends on its `UPSTREAM`."""
        found: dict[Layer, dg.AssetSpec] = {}
        for layer in ("source", *LAYERS, *self._elsewhere):
            deps = [found[UPSTREAM[layer]].key] if layer != "source" else []
            found[layer] = self._spec(layer).replace_attributes(deps=deps)
        return found

    def key(self, layer: Layer) -> dg.AssetKey:
        """The asset of a layer."""
        return self.specs[layer].key

    @property
    def chain_keys(self) -> list[dg.AssetKey]:
        """What one trigger requests: the whole chain."""
        return [self.key(layer) for layer in (*LAYERS, *self._elsewhere)]

    @property
    def _elsewhere(self) -> tuple[Layer, ...]:
        """The layers that are not in the lake."""
        return ("bigquery",) if self.contract.in_bigquery else ()

    @property
    def _source(self) -> str:
        """By whose name its runs share slots and tags."""
        raise NotImplementedError

    @property
    def pool(self) -> str:
        """The pool whose slots limit how many steps read from its source at once."""
        return self.names.of(pool_of(self._source))

    @property
    def source_tag(self) -> str:
        """The value of `SOURCE_TAG` of runs that read from its source."""
        return self.names.of(self._source)


@dataclass(frozen=True)
class MirroredTable(MirroredChain[TableContract]):
    """One table of the contract file, and its assets by layer; each is translated once.

    Attributes:
        contract: what the contract file says.
        translator: what it is called in Dagster.
        first_day: the first day (UTC) that the table has, where it is known.
        names: what the mirror's definitions are called.
        place: where it stands, where that is known.
        comment: what MySQL has as its comment, as of its newest load.
        day_of: which column tells the day of a row, ``cursor``, ``created`` or none (''); None
            where that is not known yet.
    """

    contract: TableContract
    translator: MirrorlakeTranslator = field(default_factory=MirrorlakeTranslator)
    first_day: date | None = None
    names: Names = field(default_factory=Names)
    place: TablePlace | None = None
    comment: str = ""
    day_of: str | None = None

    @override
    def _spec(self, layer: Layer) -> dg.AssetSpec:
        data = LayerData(
            *(self.contract, layer, self.first_day, self.names.mirror),
            place=self.place,
            comment=self.comment,
        )
        return self.translator.get_asset_spec(data)

    @property
    @override
    def _source(self) -> str:
        return self.contract.source

    @property
    def folded_keys(self) -> list[dg.AssetKey]:
        """What is requested of a chain whose raw is ahead: all that is made from it."""
        return [self.key(layer) for layer in (*FOLDED, *self._elsewhere)]

    @property
    def partitions_def(self) -> dg.PartitionsDefinition:
        """That of the chain."""
        partitions = self.specs["raw"].partitions_def
        if partitions is None:
            raise ValueError(f"the assets of {self.contract.name} must have partitions")
        return partitions

    def as_translated(self) -> "MirroredTable":
        """The same table, whose contract says what partitions the translator gives it: hours, days
        or months in UTC, wherever they begin and end; of copies and snapshots, dynamic ones.

        Raises:
            ConfigError: it gives it others, which can't be told from the ledger, or not each layer
                the same.
        """
        contract, given = self.contract, self.specs["raw"].partitions_def
        if any(self.specs[layer].partitions_def != given for layer in FOLDED):
            raise self._other_partitions("not the same for each layer", "Give all layers the same")
        if any(self.specs[layer].partitions_def is not None for layer in self._elsewhere):
            words = "BigQuery's, which is loaded a version at a time"
            raise self._other_partitions(words, "Give the layer bigquery none")
        if contract.landed or contract.copies:
            if isinstance(given, dg.DynamicPartitionsDefinition) and given.name:
                return self
            raise self._other_partitions(f"{given}", "Give it dynamic ones with a name")
        kind = _kind_of(given)
        if kind is None:
            raise self._other_partitions(f"{given}", "Give it hours, days or months in UTC")
        if kind == contract.partition:
            return self
        return replace(self, contract=contract.model_copy(update={"partition": kind}))

    def _other_partitions(self, words: str, next_step: str) -> ConfigError:
        name = self.contract.name
        return ConfigError(
            f"table {name}: the translator gives it partitions that can't be told from the ledger: "
            f"{words}",
            table=name,
            next_step=next_step,
        )

    def partition_of(self, day: date) -> str:
        """The key of the partition that a day (UTC), or of an hour its moment (UTC, without a
        zone), belongs to; of an earlier one, the first."""
        partitions = self.partitions_def
        if isinstance(partitions, dg.TimeWindowPartitionsDefinition):
            hour = day.hour if isinstance(day, datetime) else 0
            at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
            at = max(at, partitions.start.replace(tzinfo=UTC))
            return partitions.get_partition_key_for_timestamp(at.timestamp())
        return partition_of(self.contract, day).isoformat()

    def by_key(self, beginnings: Iterable[date]) -> dict[str, date]:
        """Partitions by their key, in their order, without those before the first one: Dagster
        learns of an earlier day when the location is loaded again."""
        first = self.first_partition
        return {
            self.partition_of(one): one
            for one in sorted(beginnings)
            if first is None or day_of(one) >= first
        }

    def range_of(self, when: date) -> tuple[str, str]:
        """The keys of the first and the last partition to request of a day: its own one; of hours
        all of the day, and of a moment (UTC, without a zone) the one that it is in."""
        if self.contract.partition == "hour" and not isinstance(when, datetime):
            hours = hours_of(when)
            return self.partition_of(hours[0]), self.partition_of(hours[-1])
        key = self.partition_of(when if self.contract.partition == "hour" else day_of(when))
        return key, key

    def days_of(self, partition: str, open_day: date) -> list[date]:
        """The days (UTC) of a partition, but none after the open one; that day itself where there
        would be none."""
        partitions = self.partitions_def
        if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
            day = date.fromisoformat(partition)
            return [open_day if partition_of(self.contract, open_day) == day else day]
        window = partitions.time_window_for_partition_key(partition)
        count = (window.end.date() - window.start.date()).days
        days = [window.start.date() + timedelta(days=n) for n in range(count or 1)]
        return [day for day in days if day <= open_day] or days[:1]

    @property
    def first_partition(self) -> date | None:
        """The first day of its partitions; None where they are no days in a row."""
        partitions = self.partitions_def
        if isinstance(partitions, dg.TimeWindowPartitionsDefinition):
            return partitions.start.date()
        return None

    @property
    def has_days(self) -> bool:
        """Whether each partition is a day of the table's rows, so that a check can speak of it."""
        return self.contract.loads.by_windows and self.contract.partition == "day"

    @property
    def dynamic_name(self) -> str:
        """Of tables whose partitions are added as they come: the name they are added under."""
        partitions = self.partitions_def
        if not isinstance(partitions, dg.DynamicPartitionsDefinition) or not partitions.name:
            raise ValueError(f"partitions of {self.contract.name} must be dynamic, with a name")
        return partitions.name


def _kind_of(partitions: dg.PartitionsDefinition | None) -> str | None:
    """What of the contract's words partitions are; None: nothing of them."""
    if not isinstance(partitions, dg.TimeWindowPartitionsDefinition) or partitions.exclusions:
        return None
    return _KINDS.get(partitions.get_cron_schedule()) if partitions.timezone == "UTC" else None


def pool_of(source: str) -> str:
    """The pool of a source."""
    return f"mysql_{source}"


def by_source(tables: Iterable[MirroredTable]) -> dict[str, list[MirroredTable]]:
    """Tables by their server, in their order."""
    found: dict[str, list[MirroredTable]] = {}
    for table in tables:
        found.setdefault(table.contract.source, []).append(table)
    return found


def mirrored_tables(
    contracts: Iterable[TableContract],
    translator: MirrorlakeTranslator | None = None,
    first_days: Mapping[str, date] | None = None,
    names: Names | None = None,
    places: Mapping[str, TablePlace] | None = None,
    comments: Mapping[str, str] | None = None,
    days_of: Mapping[str, str | None] | None = None,
) -> Sequence[MirroredTable]:
    """The tables of these contracts under one translator.

    Raises:
        ConfigError: it gives one of them partitions that can't be told from the ledger.
    """
    named, known = translator or MirrorlakeTranslator(), first_days or {}
    at, said, days = places or {}, comments or {}, days_of or {}
    return [
        MirroredTable(
            *(contract, named, known.get(contract.name), names or Names()),
            place=at.get(contract.name),
            comment=said.get(contract.name, ""),
            day_of=days.get(contract.name),
        ).as_translated()
        for contract in contracts
    ]
