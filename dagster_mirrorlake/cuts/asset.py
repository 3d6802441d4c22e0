"""A source's cuts as an asset that is materialised by each of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.keys import GROUP
from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.markdown import markdown
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.cuts.config import CutsConfig, SourceCuts

if TYPE_CHECKING:
    from mirrorlake.cuts.ledger import Cut, CutTable


_Published = Mapping[str, Mapping[str, str]]


def cuts_key(source: str, names: Names) -> dg.AssetKey:
    """``cuts/<source>``, of a mirror with a name ``cuts/<mirror>/<source>``."""
    return names.key("cuts", source)


def followed_by_source(mirror: Mirror) -> dict[str, list[MirroredTable]]:
    """The sources of which tables follow the log, each with these."""
    found = {s: [t for t in tables if t.contract.by_log] for s, tables in mirror.by_source.items()}
    return {source: tables for source, tables in found.items() if tables}


def build_assets(mirror: Mirror) -> list[dg.AssetSpec]:
    """One for each source with tables that follow its log."""
    section = mirror.config.section(CutsConfig)
    return [
        _asset(source, tables, section.of(source))
        for source, tables in followed_by_source(mirror).items()
    ]


def _asset(source: str, tables: Sequence[MirroredTable], said: SourceCuts) -> dg.AssetSpec:
    return dg.AssetSpec(
        cuts_key(source, tables[0].names),
        deps=[table.key("deduped") for table in tables],
        description=f"Cuts of source {source}: all of its tables of mode binlog at one place in "
        f"its log, between two transactions, under one tag. The job `cut_{source}` "
        "makes one, and each is a materialisation. Who reads the versions with its tag sees all "
        "tables as of its time; who reads tables as they are, each as of its own newest load.",
        group_name=GROUP,
        kinds={"iceberg"},
        freshness_policy=_freshness(said),
    )


def _freshness(said: SourceCuts) -> dg.FreshnessPolicy | None:
    """Late after one cut that was not made, failed after two; of cuts by hand nothing is late."""
    if said.every is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=said.every * 3, warn_window=said.every * 2)


def cut_materialization(
    cut: "Cut", names: Names, left_out: Mapping[str, str], published: _Published
) -> dg.AssetMaterialization:
    """One cut, as it was made.

    Args:
        left_out: tables that follow the log and are not in it → why.
        published: see `cut_metadata`.
    """
    return dg.AssetMaterialization(
        cuts_key(cut.source, names), metadata=cut_metadata(cut, left_out, published)
    )


def cut_metadata(cut: "Cut", left_out: Mapping[str, str], published: _Published) -> dict[str, Any]:
    """What is shown of a cut: of when it is, what is in it, and how it is read.

    Args:
        published: table → where it is published → how it is read there.
    """
    from dagster_mirrorlake.assets.figures import row_count
    from mirrorlake.cuts.report import keys_sentence

    rows = [one.rows for one in cut.tables if one.layer == "deduped"]
    # One without a number has no version, and so no row.
    total = sum(one or 0 for one in rows)
    until = f"{cut.keep_until:%Y-%m-%d %H:%M:%S}" if cut.keep_until else "it is dropped by hand"
    return {
        "cut": cut.name,
        "as of (UTC)": f"{cut.at:%Y-%m-%d %H:%M:%S}",
        "place in the log": cut.place,
        **({"GTID": cut.gtid} if cut.gtid else {}),
        "tag": cut.tag,
        "tables": len(cut.names),
        **row_count(total),
        **({"left out": _left_out(left_out)} if left_out else {}),
        "foreign keys": keys_sentence(cut.foreign_keys),
        **({"orphans": cut.foreign_keys.orphans} if cut.foreign_keys is not None else {}),
        "lake tables": dg.MetadataValue.md(_tables(cut)),
        "read it (Spark)": dg.MetadataValue.md(_sql(cut)),
        **_as_published(published),
        "kept until (UTC)": until,
    }


def _as_published(published: _Published) -> dict[str, Any]:
    rows = [
        (table, place, f"`` {text} ``")
        for table, places in published.items()
        for place, text in places.items()
    ]
    found = markdown(("table", "where", "how it is read"), rows)
    return {"published": dg.MetadataValue.md(found)} if rows else {}


def _left_out(left_out: Mapping[str, str]) -> dg.MarkdownMetadataValue:
    rows = [(table, why.removeprefix(f"table {table}: ")) for table, why in left_out.items()]
    return dg.MetadataValue.md(markdown(("table", "why it is not in the cut"), rows))


def _tables(cut: "Cut") -> str:
    head = ("table", "layer", "version", "rows", "against MySQL")
    return markdown(head, [(*_version(one), _against_mysql(one)) for one in cut.tables])


def _version(one: "CutTable") -> tuple[str, str, str, str]:
    rows = "?" if one.rows is None else f"{one.rows:,}"
    return one.table, one.layer, str(one.snapshot_id or "empty"), rows


def _against_mysql(one: "CutTable") -> str:
    if one.layer != "deduped":
        return ""  # the checks of clean compare it with deduped
    return f"{one.proved}: {one.words}" if one.words else one.proved


def _sql(cut: "Cut") -> str:
    from mirrorlake.cuts.report import reads_of

    reads = [reads_of(cut, one).get("Spark") for one in cut.tables]
    lines = "\n".join(f"{line};" for line in reads if line)
    return f"```sql\n{lines}\n```"
