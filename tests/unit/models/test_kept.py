"""What was found of models is used again only where nothing that it depends on is another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField

from benchmarks.generated_models import (
    contract_text,
    generate_models,
    make_tables,
    write_models,
)
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.models.cache import model as kept
from mirrorlake.models.cache.files import KeptModels, kept_folder
from mirrorlake.models.cache.scope_rules_json import plain_rules, read_rules
from mirrorlake.models.compile import project
from mirrorlake.models.compile.dependencies import external_inputs, inputs_of, unbounded
from mirrorlake.models.compile.model import Project
from mirrorlake.models.contract_models import compile_project
from tests.unit.models.test_rules import COLUMNS, CONTRACT

NOW = datetime(2024, 4, 1, tzinfo=UTC)
MODELS = {
    "a/days": (
        "for: {made: \"TIMESERIES('2024-03-01', CURRENT_DATE, 'P1D')\"}",
        "SELECT k, s, COUNT(*) AS n FROM s_d.sales WHERE DATE(at) = made GROUP BY k, s",
    ),
    "a/week": (
        "for: {until: \"TIMESERIES('2024-03-01', CURRENT_DATE, 'P1D')\"}",
        "SELECT k, SUM(n) AS n FROM a.days WHERE made BETWEEN DATE_SUB(until, 6) AND until "
        "GROUP BY k",
    ),
    "a/month": (
        "for:\n  month: TIMESERIES('2024-01-01', '2024-05-01', 'P1M')\n  w: [a, b]",
        "SELECT SUM(k) AS k FROM a.days WHERE made BETWEEN month AND LAST_DAY(month) AND s = w",
    ),
    "b/all": ("owner: me", "SELECT 1.5 AS half, MAX(k) AS k FROM a.week"),
    "b/view": ("materialized: view", "SELECT * FROM s_d__clean.v"),
}


@pytest.fixture
def contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_SUCH_PASSWORD", "x")
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT)
    lake = Lake(load_config(path).lake)
    for namespace in ("s_d", "s_d__clean"):
        lake.make_namespace(namespace)
        for name in ("v", "sales"):
            fields = [NestedField(n, c, k) for n, (c, k) in enumerate(COLUMNS.items(), 1)]
            lake.catalog.create_table((namespace, name), Schema(*fields))
    for name in MODELS:
        write(path, name)
    return path


def write(path: Path, name: str, **replaced: str) -> None:
    header, sql = MODELS[name]
    text = f"---\n{header}\n---\n{sql}\n"
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    file = path.parent / "models" / f"{name}.sql"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def opened(path: Path, now: datetime = NOW) -> tuple[Project, Any]:
    config = load_config(path)
    return compile_project(config, Lake(config.lake), now)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are bound, as it happens."""
    found: list[str] = []
    real = project.fields_of

    def seen(declaration: Any, *rest: Any) -> Any:
        found.append(declaration.name)
        return real(declaration, *rest)

    monkeypatch.setattr(project, "fields_of", seen)
    return found


def said(path: Path) -> dict[str, object]:
    """All that is known of the models of a project."""
    found, catalogue = opened(path)
    found.raise_problems()
    return {
        model.name: (
            model.fields,
            model.types,
            model.fingerprint,
            model.reads,
            dict(model.rules.rules),
            [inputs_of(found, catalogue, model, scope) for scope in model.scopes],
            list(unbounded(found, catalogue, model)),
            model.bound.fields,
        )
        for model in found.models.values()
    }


def test_what_is_read_back_is_what_was_found(contract: Path, bound: list[str]) -> None:
    first = said(contract)
    assert sorted(bound) == ["a.days", "a.month", "a.week", "b.all", "b.view"]
    bound.clear()
    assert said(contract) == first
    assert bound == []


CHANGES: list[tuple[Callable[[Path], object], set[str]]] = [
    # Layout and comments: the text is another, and the columns are the same for its readers.
    (lambda path: write(path, "a/days", SELECT="-- more\nSELECT"), {"a.days"}),
    (lambda path: write(path, "a/days", n="n, MAX(k) AS most"), {"a.days", "a.week", "a.month"}),
    (lambda path: write(path, "a/days", **{"k, s, COUNT": "s, MAX(k) AS k, COUNT", "BY k, s": "BY s"}),
     {"a.days", "a.week", "a.month"}),
    (lambda path: write(path, "a/week", SELECT="SELECT MAX(n) AS most,"), {"a.week", "b.all"}),
    (lambda path: write(path, "a/week", until="up_to"), {"a.week", "b.all"}),
    (lambda path: write(path, "a/month", **{"[a, b]": "[a, c]"}), {"a.month"}),
    (lambda path: path.write_text(CONTRACT.replace("cursor: at", "cursor: day")),
     {"a.days"}),
    (lambda path: path.write_text(CONTRACT.replace("cursor: at, ", "cursor: at, columns: {s: {pii: show}}, ")),
     set()),
    (lambda path: add_column(path, "sales", "s_d"), {"a.days"}),
    (lambda path: add_column(path, "v", "s_d__clean"), {"b.view"}),
]  # fmt: skip


def add_column(path: Path, table: str, namespace: str) -> None:
    with (
        Lake(load_config(path).lake)
        .catalog.load_table((namespace, table))
        .update_schema() as update
    ):
        update.add_column("more", COLUMNS["k"])
    if namespace == "s_d":  # what clean does not have is hidden
        add_column(path, table, "s_d__clean")


@pytest.mark.parametrize(("change", "again"), CHANGES)
def test_what_depends_on_a_change_is_bound_again(
    contract: Path, bound: list[str], change: Callable[[Path], object], again: set[str]
) -> None:
    opened(contract)
    bound.clear()
    change(contract)
    warm = said(contract)
    assert set(bound) == again
    for path in kept_folder(contract).iterdir():
        path.unlink()
    assert said(contract) == warm


FAST = """\"\"\"---
for: {{since: [3, 4]}}
reads:
  days: SELECT k, n FROM a.days WHERE k = since
columns:
  n: {{type: bigint, made_of: days.n}}
---\"\"\"
from pyspark.sql import DataFrame


def fast(days: DataFrame) -> DataFrame:
    return days.select("n"){more}
"""
STOCK = "format: iceberg\ncolumns: {stock: bigint, on_day: date}\npartition_by: on_day\n"


def test_a_model_in_python_is_read_back(contract: Path, bound: list[str]) -> None:
    file = contract.parent / "models" / "a" / "fast.py"
    file.write_text(FAST.format(more=""))
    first = said(contract)
    bound.clear()
    assert said(contract) == first
    assert bound == []
    file.write_text(FAST.format(more=".distinct()"))
    changed = said(contract)
    assert bound == ["a.fast"]
    assert changed["a.fast"] != first["a.fast"]
    assert {**changed, "a.fast": 0} == {**first, "a.fast": 0}


def test_what_is_made_elsewhere_is_part_of_the_key(contract: Path, bound: list[str]) -> None:
    lake = Lake(load_config(contract).lake)
    lake.make_namespace("ext")
    fields = [NestedField(1, "stock", LongType()), NestedField(2, "on_day", DateType())]
    by_day = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "on_day"))
    lake.catalog.create_table(("ext", "stock"), Schema(*fields), partition_spec=by_day)
    file = contract.parent / "models" / "ext" / "stock.yaml"
    file.parent.mkdir()
    file.write_text(STOCK)
    header, _ = MODELS["a/days"]
    (contract.parent / "models" / "a" / "stock.sql").write_text(
        f"---\n{header}\n---\nSELECT SUM(stock) AS n FROM ext.stock WHERE "
        "on_day BETWEEN DATE_SUB(made, 1) AND made\n"
    )
    first = said(contract)
    found, catalogue = opened(contract)
    model = found.model("a.stock")
    assert len(model.scopes) == 31
    for scope in model.scopes:
        assert inputs_of(found, catalogue, model, scope) == external_inputs(model, scope)
    bound.clear()
    assert said(contract) == first
    assert bound == []
    file.write_text(STOCK + "description: the same columns\n")
    assert said(contract) == first
    assert bound == []
    file.write_text(STOCK + "hidden: stock\n")
    assert next(one.message for one in opened(contract)[0].problems).startswith(
        f"{contract.parent / 'models' / 'a' / 'stock.sql'}:4:8: column n is made of stock"
    )


def test_a_later_day_finds_what_is_new_of_it(contract: Path, bound: list[str]) -> None:
    opened(contract)
    bound.clear()
    found, _ = opened(contract, datetime(2024, 4, 3, tzinfo=UTC))
    assert bound == []
    assert found.model("a.days").scopes[-1]["made"] == date(2024, 4, 2)


def sealed(body: str) -> bytes:
    return f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}".encode()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[:-9],
    "a letter": lambda content: content.replace(b'"bigint"', b'"bigins"', 1),
    "a digit of the checksum": lambda content: (
        (b"1" if content[:1] == b"0" else b"0") + content[1:]
    ),
    "no text": lambda _: b"\xff\xfe\x00",
    "another list": lambda _: sealed("[1, 2]"),
    "no fields": lambda content: sealed(json.dumps({**loaded(content), "fields": None})),
    "wrong rules": lambda content: sealed(json.dumps({**loaded(content), "rules": [[1]]})),
    "a rule of another kind": lambda content: sealed(
        json.dumps({**loaded(content), "rules": [[[["star", 1]], []]]})
    ),
}


def loaded(content: bytes) -> dict[str, Any]:
    return json.loads(content.partition(b"\n")[2])


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=[*DAMAGES])
def test_a_damaged_file_is_written_again(
    contract: Path, bound: list[str], damage: Callable[[bytes], bytes]
) -> None:
    first = said(contract)
    file = kept_folder(contract) / "a.days.json"
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    bound.clear()
    assert said(contract) == first
    assert bound == ["a.days"]
    assert file.read_bytes() == whole


def test_what_another_version_wrote_is_found_again(
    contract: Path, bound: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(contract)
    bound.clear()
    monkeypatch.setattr(kept, "compiler", lambda: "another")
    opened(contract)
    assert len(bound) == len(MODELS)


def test_a_model_that_is_gone_leaves_no_file(contract: Path) -> None:
    opened(contract)
    (contract.parent / "models" / "b" / "all.sql").unlink()
    opened(contract)
    left = {path.name for path in kept_folder(contract).iterdir()}
    assert left == {"a.days.json", "a.month.json", "a.week.json", "b.view.json"}


def test_a_model_with_a_problem_is_not_kept_and_is_said_each_time(
    contract: Path, bound: list[str]
) -> None:
    opened(contract)
    write(contract, "a/days", n="m")
    problems = [opened(contract)[0].problems for _ in range(2)]
    assert [str(one) for one in problems[0]] == [str(one) for one in problems[1]]
    # What was found of those below is used again once the problem is gone.
    write(contract, "a/days")
    bound.clear()
    assert opened(contract)[0].problems == ()
    assert sorted(bound) == ["a.days", "a.month"]


def test_where_nothing_can_be_written_models_are_found_all_the_same(contract: Path) -> None:
    kept_folder(contract).parent.mkdir(exist_ok=True)
    kept_folder(contract).write_text("no folder")
    assert opened(contract)[0].problems == ()


def test_without_a_folder_nothing_is_kept(contract: Path) -> None:
    found, _ = opened(contract)
    folder = KeptModels()
    folder.keep({name: model.kept for name, model in found.models.items()}, found.models)
    assert folder.find("a.days", found.model("a.days").kept.text) is None


def test_rules_are_the_same_after_json(contract: Path) -> None:
    for model in opened(contract)[0].models.values():
        rules = model.rules.rules
        assert rules
        assert read_rules(json.loads(json.dumps(plain_rules(rules)))) == rules


def generated(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_PASSWORD", "x")
    path = folder / "mirrorlake.yaml"
    path.write_text(contract_text(number))
    write_models(
        path.parent / "models", generate_models(number), date(2022, 1, 1), date(2025, 1, 1)
    )
    make_tables(load_config(path), number)
    return path


def assert_a_project_is_read_back(path: Path, bound: list[str], number: int) -> None:
    first, _ = opened(path)
    first.raise_problems()
    assert len(bound) == len(first.models) == number
    bound.clear()
    second, catalogue = opened(path)
    assert bound == []
    for name, model in first.models.items():
        other = second.models[name]
        assert (other.fields, other.fingerprint) == (model.fields, model.fingerprint)
        assert other.rules.rules == model.rules.rules
        # Nothing is left to find.
        for scope in (model.scopes[0], model.scopes[len(model.scopes) // 2], model.scopes[-1]):
            inputs_of(second, catalogue, other, scope)
        assert not other.rules.fresh
        assert list(unbounded(second, catalogue, other)) == []


def test_a_generated_project_is_read_back(
    tmp_path: Path, bound: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_a_project_is_read_back(generated(tmp_path, 40, monkeypatch), bound, 40)


@pytest.mark.full
def test_a_thousand_generated_models_are_read_back(
    tmp_path: Path, bound: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_a_project_is_read_back(generated(tmp_path, 1_000, monkeypatch), bound, 1_000)


def test_what_was_found_holds_for_the_source_of_the_whole_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not for that of the cache's own room alone: another binder finds something else."""
    read: set[str] = set()
    whole = Path.read_bytes

    def seen(path: Path) -> bytes:
        read.add(f"{path.parent.name}/{path.name}")
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", seen)
    kept.compiler.__wrapped__()
    assert {"binding/binder.py", "files/declaration.py", "compile/project.py"} <= read
