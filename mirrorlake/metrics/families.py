"""The metrics: what `mirrorlake status --strict` says of each table, and what its loads of the last
day came to.

Moments are given as such, and not as ages: a file that is read an hour after it was written then
still says the truth. What is not known is left out: an absent series is no 0.

Source: Prometheus, "Metric and label naming"; OpenMetrics 1.0, "StateSet".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from mirrorlake import __version__
from mirrorlake.config import Config
from mirrorlake.ledger import Ledger
from mirrorlake.operations.status.all_tables import all_statuses, named_tables
from mirrorlake.operations.status.attention import Attention
from mirrorlake.operations.status.history import History, history_of
from mirrorlake.operations.status.table_status import TableStatus
from mirrorlake.runtime.extras import library

if TYPE_CHECKING:
    from prometheus_client.core import Metric

DAY: Final = timedelta(days=1)
"""How far back loads are counted."""


def read_families(config: Config, ledger: Ledger, now: datetime) -> list[Metric]:
    """All metrics as of now (UTC), from the ledger and the catalog; no source is queried.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
        MachineError: the library that writes them is not installed.
    """
    found = all_statuses(config, ledger, named_tables(config, ()), besides=True)
    loads = ledger.loads_since(now - DAY)
    histories = [history_of(s.table, loads.get(s.table, ()), None) for s in found.every]
    return [*families(found.every, found.not_right(ledger), histories, now)]


def families(
    statuses: Sequence[TableStatus],
    not_right: Sequence[Attention],
    histories: Sequence[History],
    now: datetime,
) -> Iterator[Metric]:
    """The metrics that these make; pure.

    Args:
        not_right: what keeps tables from being as they should be, see `Attention`.
        histories: of the last `DAY`.
        now: when all of it was read (UTC).
    """
    core = _core()
    yield core.InfoMetricFamily("mirrorlake", "The release.", value={"version": __version__})
    yield _up(core, True)
    by_table = _Tables(core, statuses)
    yield by_table.labelled("state", "1 for the state of the table.", lambda s: {s.state: 1})
    yield by_table.gauge("rows", "Rows of deduped, as the catalog names it.", lambda s: s.rows)
    yield by_table.gauge(
        "as_of_timestamp_seconds",
        "When MySQL was last known to stand where the mirror stands.",
        lambda s: None if s.freshness is None else (now - s.freshness).timestamp(),
    )
    yield by_table.gauge(
        "last_load_timestamp_seconds", "When the newest load began.", lambda s: _moment(s.last_load)
    )
    yield by_table.gauge(
        "proved_as_of_timestamp_seconds",
        "When what is proved was equal to MySQL, by MySQL's clock.",
        lambda s: None if s.proved is None else _moment(s.proved.as_of),
    )
    yield by_table.gauge(
        "proved_rows",
        "Rows that are proved.",
        lambda s: None if s.proved is None else s.proved.rows,
    )
    yield by_table.gauge(
        "loads_since_proof",
        "Loads that brought rows since the proof.",
        lambda s: None if s.proved is None else s.proved.loads_since,
    )
    yield by_table.labelled(
        "original_values", "Values that are kept as MySQL's text.", lambda s: s.originals, "column"
    )
    yield _attention(core, not_right)
    yield from _of_day(core, histories)


def down() -> Metric:
    """What is said where nothing can be: that the ledger, the lake or the contract file fails."""
    return _up(_core(), False)


def _core() -> Any:
    return library("prometheus_client.core", "metrics", "mirrorlake metrics")


def _up(core: Any, up: bool) -> Metric:
    words = "Whether contract file, ledger and lake could be read; nothing else is given if not."
    return core.GaugeMetricFamily("mirrorlake_up", words, value=int(up))


class _Tables:
    """Makes one metric of all tables."""

    def __init__(self, core: Any, statuses: Sequence[TableStatus]) -> None:
        self._core = core
        self._statuses = statuses

    def gauge(self, name: str, words: str, value: Any) -> Metric:
        return self._made(name, words, ("table", "mode"), lambda s: [((), value(s))])

    def labelled(self, name: str, words: str, values: Any, label: str = "") -> Metric:
        """One series for each name in ``values``, under the label ``label`` (the metric's own name
        by default)."""
        labels = ("table", "mode", label or name)
        return self._made(name, words, labels, lambda s: [((k,), v) for k, v in values(s).items()])

    def _made(self, name: str, words: str, labels: Sequence[str], series: Any) -> Metric:
        made = self._core.GaugeMetricFamily(f"mirrorlake_table_{name}", words, labels=labels)
        for status in self._statuses:
            for more, value in series(status):
                if value is not None:
                    made.add_metric([status.table, status.mode, *more], value)
        return made


def _attention(core: Any, not_right: Sequence[Attention]) -> Metric:
    """What `status --strict` names; a table has several of one kind at times."""
    counts: dict[tuple[str, str], int] = {}
    for one in not_right:
        counts[one.table, one.kind] = counts.get((one.table, one.kind), 0) + 1
    words = "What is not right of the table, by `mirrorlake status --strict`, by kind."
    made = core.GaugeMetricFamily("mirrorlake_table_not_right", words, labels=("table", "kind"))
    for (table, kind), count in counts.items():
        made.add_metric([table, kind], count)
    return made


def _of_day(core: Any, histories: Sequence[History]) -> Iterator[Metric]:
    counted: Mapping[str, tuple[str, Any]] = {
        "loads": ("Loads of the last 24 hours that ended.", lambda h: h.loads),
        "loads_errored": ("Loads of the last 24 hours that failed.", lambda h: h.errored),
        "loaded_rows": ("Rows that the last 24 hours brought to raw.", lambda h: h.rows),
        "longest_query_seconds": (
            "The longest statement of the last 24 hours that read rows.",
            lambda h: h.longest_query,
        ),
    }
    for name, (words, value) in counted.items():
        made = core.GaugeMetricFamily(f"mirrorlake_table_day_{name}", words, labels=("table",))
        for history in histories:
            made.add_metric([history.table], value(history))
        yield made


def _moment(iso: str | None) -> float | None:
    if iso is None:
        return None
    found = datetime.fromisoformat(iso)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
