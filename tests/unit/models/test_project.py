"""Models beside one another: their order, their errors, and what they may read."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    NestedField,
    StringType,
    TimestampType,
)

from mirrorlake.cli.main import cli
from mirrorlake.cli.show import as_values
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ModelError
from mirrorlake.ledger import Ledger
from mirrorlake.models.changes.since_run import plan_models, record_model
from mirrorlake.models.compile.dependencies import (
    EVERY_DAY,
    MirrorInput,
    ModelInput,
    inputs_of,
    unbounded,
)
from mirrorlake.models.compile.model import Project
from mirrorlake.models.compile.project import compile_models, stored_columns
from mirrorlake.models.contract_models import compile_project, scopes_of
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.models.partition_states.due import may_lack
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.show.model import show_model

NOW = datetime(2024, 3, 4, 12, tzinfo=UTC)
CONTRACT = """
version: 1
lake: {warehouse: lake}
ledger: {url: "sqlite:///ledger.db"}
sources:
  s:
    host: 127.0.0.1
    user: mirror
    password: "${env:NO_SUCH_PASSWORD}"
    databases:
      d:
        tables:
          sales: {mode: append, key: [id], cursor: sold_at, start: 2024-01-01}
          people: {mode: full, key: [id], columns: {email: {pii: mask}}}
          never: {mode: full, key: [id]}
"""
SALES = ["id int", "sold_at timestamp", "store string", "amount decimal"]
KINDS = {
    "int": IntegerType(),
    "timestamp": TimestampType(),
    "string": StringType(),
    "decimal": DecimalType(10, 2),
    "date": DateType(),
}
DAYS = "for: {day: \"TIMESERIES('2024-03-01', CURRENT_DATE, 'P1D')\"}"
Compiled = Callable[..., Project]


@pytest.fixture
def contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_SUCH_PASSWORD", "x")
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT)
    lake = Lake(load_config(path).lake)
    people = ["id int", "email string", "born date"]
    for namespace, table, columns in (
        ("s_d", "sales", SALES),
        ("s_d", "people", people),
        ("s_d__clean", "people", people),
        ("s_d__clean", "sales", [*SALES, "packed date"]),
    ):
        lake.make_namespace(namespace)
        fields = [column.split() for column in columns]
        lake.catalog.create_table(
            (namespace, table),
            Schema(
                *(NestedField(i, n, KINDS[k], required=False) for i, (n, k) in enumerate(fields, 1))
            ),
        )
    return path


@pytest.fixture
def compiled(contract: Path, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    """Compile models, given by ``dataset__name=text``."""
    monkeypatch.chdir(contract.parent)

    def run(**models: str) -> Project:
        for name, text in models.items():
            path = contract.parent / "models" / f"{name.replace('__', '/')}.sql"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        config = load_config(contract)
        project, run.catalogue = compile_project(config, Lake(config.lake), NOW)  # type: ignore[attr-defined]
        return project

    return run


def problem(project: Project) -> str:
    (found,) = project.problems
    words = found.message if not found.next_step else f"{found.message}. {found.next_step}"
    return words[words.index("models/") :]


def test_models_come_after_what_they_read_and_know_where_values_are_from(
    compiled: Compiled,
) -> None:
    project = compiled(
        a__total="SELECT SUM(amount) AS amount FROM b.daily",
        b__daily=f"---\n{DAYS}\n---\nSELECT store, SUM(amount) AS amount FROM s_d.sales "
        "WHERE DATE(sold_at) = day GROUP BY store",
    )
    assert list(project.models) == ["b.daily", "a.total"]
    daily, total = project.models.values()
    assert [(f.name, f.value.type, f.value.nullable) for f in daily.fields] == [
        ("store", "string", True),
        ("amount", "decimal(20,2)", True),
        ("day", "date", False),
    ]
    assert [daily.key_of(scope) for scope in daily.scopes] == [
        "day=2024-03-01",
        "day=2024-03-02",
        "day=2024-03-03",
    ]
    assert total.fields[0].value.type == "decimal(30,2)"
    origins = [f"{o.table}.{o.column}" for o in stored_columns(project, total, "amount")]
    assert origins == ["s_d.sales.amount"]
    assert project.readers == {"b.daily": ("a.total",), "s_d.sales": ("b.daily",)}


def test_what_a_partition_reads(compiled: Compiled, contract: Path) -> None:
    project = compiled(
        m__daily=f"---\n{DAYS}\n---\nSELECT id FROM s_d.sales JOIN s_d.people USING (id)"
        " WHERE sold_at >= day AND sold_at < day + 1",
        m__later="---\nfor: {until: \"TIMESERIES('2024-03-02', CURRENT_DATE, 'P1D')\"}\n---\n"
        "SELECT COUNT(*) AS n FROM m.daily WHERE day BETWEEN DATE_SUB(until, 1) AND until",
        m__all="SELECT COUNT(*) AS n FROM m.daily",
    )
    assert project.problems == ()
    catalogue = compiled.catalogue  # type: ignore[attr-defined]
    daily, later = project.model("m.daily"), project.model("M.Later")
    assert inputs_of(project, catalogue, daily, daily.scopes[1]) == (
        MirrorInput("s_d.sales", "sold_at", ((date(2024, 3, 2), date(2024, 3, 2)),)),
        MirrorInput("s_d.people", None, EVERY_DAY),
    )
    assert inputs_of(project, catalogue, later, later.scopes[1]) == (
        ModelInput("m.daily", ("day=2024-03-02", "day=2024-03-03"), True),
    )
    config = load_config(contract)
    states = States(project, catalogue, Lake(config.lake), Ledger(config.ledger.url))
    shown = show_model(states, "m.daily", {"day": "2024-03-02"})
    assert shown.partition is not None
    assert shown.partition.readers == {
        "m.all": ("",),
        "m.later": ("until=2024-03-02", "until=2024-03-03"),
    }
    assert (shown.states, shown.partition.state) == ({"missing": 3}, "missing")
    assert shown.partition.states == {"m.all": {"missing": 1}, "m.later": {"missing": 2}}
    assert "DATE '2024-03-02' + 1" in shown.partition.sql
    assert shown.warnings == ()


def test_a_partition_that_reads_all_of_a_table_is_warned_of(compiled: Compiled) -> None:
    project = compiled(
        m__daily=f"---\n{DAYS}\n---\nSELECT id\nFROM s_d.sales WHERE LENGTH(store) = DAY(day)"
    )
    model = project.model("m.daily")
    (words,) = unbounded(project, compiled.catalogue, model)  # type: ignore[attr-defined]
    assert words.endswith(
        "daily.sql:5:6: every partition reads all of s_d.sales: no condition that can be analysed "
        "bounds its sold_at"
    )


def test_days_of_another_column_than_the_contracts_bound_a_table_too(compiled: Compiled) -> None:
    project = compiled(
        m__daily=f"---\n{DAYS}\n---\nSELECT id FROM s_d__clean.sales WHERE packed = day"
    )
    catalogue = compiled.catalogue  # type: ignore[attr-defined]
    model = project.model("m.daily")
    assert list(unbounded(project, catalogue, model)) == []
    (read,) = inputs_of(project, catalogue, model, model.scopes[0])
    march = date(2024, 3, 1)
    assert read == MirrorInput("s_d__clean.sales", "packed", ((march, march),))
    # Of which rows a load that failed would have brought, these days say nothing.
    february = date(2024, 2, 1), date(2024, 2, 29)
    assert isinstance(read, MirrorInput)
    assert may_lack(read, "sold_at", *february)
    assert not may_lack(read, "packed", *february)
    assert may_lack(read, "packed", march, march)
    everything = MirrorInput("s_d__clean.sales", "sold_at", EVERY_DAY)
    assert may_lack(everything, "sold_at", *february)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"m__x": "SELECT ida FROM s_d.sales"},
         "models/m/x.sql:1:8: there is no column ida; did you mean 'id'?"),
        ({"m__x": "SELECT *\nFROM s_d.sale"},
         "models/m/x.sql:2:6: there is no table s_d.sale; did you mean 's_d.sales'?"),
        ({"m__x": "SELECT id FROM"}, "models/m/x.sql:1:"),
        ({"m__x": "SELECT id FROM s_d.never"},
         "models/m/x.sql:1:16: s_d.never has no columns yet: its table was never loaded. mirrorlake sync s.d.never"),
        ({"m__x": "---\nowner: a@b.c\n---\nSELECT 1 AS a;\nSELECT 2 AS b"},
         "models/m/x.sql:5:8: a model is one query, not 2"),
        ({"m__x": "SELECT 1 + 1"}, "models/m/x.sql:1:8: column 1 has no name. Write AS"),
        ({"m__x": "SELECT id, amount AS ID FROM s_d.sales"}, "models/m/x.sql:1:12: two columns are called ID"),
        ({"m__x": "SELECT NULL AS n"}, "models/m/x.sql:1:16: column n is always NULL, and has no type. CAST it"),
        ({"m__x": f"---\n{DAYS}\n---\nSELECT id, RAND() AS r FROM s_d.sales"},
         "models/m/x.sql:4:12: rand() gives something else each time"),
        ({"m__x": f"---\n{DAYS}\n---\nSELECT id AS day FROM s_d.sales"},
         "models/m/x.sql:4:8: column day is called as a name under `for`"),
        ({"s_d__sales": "SELECT 1 AS n"}, "models/s_d/sales.sql: s_d.sales is a mirrored table. Give the model another name"),
        ({"m__x": "SELECT n FROM m.y", "m__y": "SELECT n FROM m.z", "m__z": "SELECT n FROM m.x"},
         "models/m/x.sql:1:15: models read one another in a circle: m."),
        ({"m__x": f"---\nmaterialized: view\n{DAYS}\n---\nSELECT 1 AS n"},
         "models/m/x.sql:3:1: a view has no partitions"),
        # What is above is wrong: that is said, once.
        ({"m__x": "SELECT * FROM m.y", "m__y": "SELECT ida FROM s_d.sales"},
         "models/m/y.sql:1:8: there is no column ida"),
        ({"m__x": "SELECT * FROM m.y", "m__y": "SELECT (1 FROM s_d.sales"},
         "models/m/y.sql:1:"),
        # personal data
        ({"m__x": "SELECT CONCAT(e, '!') AS mail FROM (SELECT email AS e FROM s_d.people)"},
         "models/m/x.sql:1:8: column mail is made of email of s_d.people, which the contract hides. Read the clean"),
        ({"m__x": "---\nreleased: [mails]\n---\nSELECT COUNT(email) AS n FROM s_d.people"},
         "models/m/x.sql:2:1: `released`: there is no column mails"),
        ({"m__x": "SELECT n,\n  email AS e FROM (SELECT 1 AS n, * FROM s_d.people)"},
         "models/m/x.sql:2:3: column e is made of email of s_d.people"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(
    compiled: Compiled, models: dict[str, str], words: str
) -> None:
    assert problem(compiled(**models)).startswith(words)


@pytest.mark.parametrize(
    ("defaults", "rule", "words"),
    [
        ("{new_columns: hide}", "", "which the contract hides until it names it. Give it a rule in "
         "the contract: {pii: show} shows it; or, where nobody can be told"),
        ("{new_columns: hide}", ", columns: {note: {pii: show}}", "which the contract shows, but "
         "clean does not have yet. `mirrorlake sync s.d.sales` brings it into clean; or, where"),
        ("{new_columns: hide}", ", columns: {note: {pii: drop}}", "which the contract hides. Read "
         "the clean table instead; or, where"),
        ("{new_columns: show}", "", "which is not in clean yet. `mirrorlake sync s.d.sales` brings"),
    ],
)  # fmt: skip
def test_why_a_column_is_hidden_and_what_to_do(
    compiled: Compiled, contract: Path, defaults: str, rule: str, words: str
) -> None:
    text = contract.read_text().replace("start: 2024-01-01", f"start: 2024-01-01{rule}")
    contract.write_text(f"{text}defaults: {defaults}\n")
    table = Lake(load_config(contract).lake).load(Identifier("s_d", "sales"))
    assert table is not None
    with table.update_schema() as update:
        update.add_column("note", StringType())
    project = compiled(m__x="SELECT note FROM s_d.sales", m__y="SELECT nothing FROM s_d.sales")
    # Its next step is said beside other errors, too.
    (line, _) = str(ModelError.joined(project.problems)).splitlines()
    assert f"x.sql:1:8: column note is made of note of s_d.sales, {words}" in line


def reason(project: Project, name: str) -> str:
    """Why there is no such model, as `run` and `show` say it."""
    with pytest.raises(ModelError) as caught:
        project.model(name)
    return str(caught.value).replace(f"{Path.cwd()}/", "")


def test_what_reads_a_broken_model_is_named_with_the_reason(compiled: Compiled) -> None:
    project = compiled(
        m__daily="SELECT ida FROM s_d.sales",
        m__weekly="SELECT id\nFROM m.daily",
        m__yearly="SELECT id FROM m.weekly",
        m__other="SELECT nothing FROM s_d.sales",
    )
    daily = "does not compile: models/m/daily.sql:1:8: there is no column ida; did you mean 'id'?"
    weekly = f"models/m/weekly.sql:2:6: m.weekly reads m.daily, which {daily}"
    yearly = f"models/m/yearly.sql:1:16: m.yearly reads m.weekly, which {daily}"
    more = "`mirrorlake plan` names 3 more errors"
    assert reason(project, "m.weekly") == f"{weekly} {more}"
    assert reason(project, "m.yearly") == f"{yearly} {more}"
    with pytest.raises(ModelError) as caught:
        project.raise_problems()
    lines = caught.value.message.replace(f"{Path.cwd()}/", "").splitlines()
    assert lines[0] == "models/m/daily.sql:1:8: there is no column ida; did you mean 'id'?"
    assert lines[2:] == [weekly, yearly]


def test_what_reads_a_circle_is_named_and_is_not_in_it(compiled: Compiled) -> None:
    project = compiled(m__x="SELECT n FROM m.y", m__y="SELECT n FROM m.x", m__z="SELECT n FROM m.y")
    assert "models read one another in a circle: m.x reads m.y reads m.x" in problem(project)
    assert reason(project, "m.z").startswith("models/m/z.sql:1:15: m.z reads m.y, which does not")
    assert "in a circle" in reason(project, "m.y")


@pytest.mark.parametrize("query", ["SELECT 1 AS n", "SELECT id FROM s_d.sales", "SELECT (1"])
def test_a_file_that_has_a_mirrored_tables_name_takes_it_from_nobody(
    compiled: Compiled, query: str
) -> None:
    project = compiled(s_d__sales=query, m__x="SELECT id FROM s_d.sales")
    hidden = "models/s_d/sales.sql: s_d.sales is a mirrored table. Give the model another name"
    assert problem(project) == reason(project, "s_d.sales") == hidden
    assert list(project.models) == ["m.x"]


def test_personal_data_is_read_where_nobody_can_be_told_from_it(compiled: Compiled) -> None:
    project = compiled(
        m__masked="SELECT email FROM s_d__clean.people",
        m__counted="---\nreleased: n\n---\nSELECT COUNT(DISTINCT email) AS n FROM s_d.people",
        m__above="SELECT n FROM m.counted",
        m__chosen="SELECT id FROM s_d.people WHERE email IS NOT NULL",
    )
    assert project.problems == ()


def test_the_fingerprint_changes_with_what_is_above_and_not_with_layout(compiled: Compiled) -> None:
    below = "SELECT n FROM m.above"
    first = compiled(m__above="SELECT 1 AS n", m__below=below)
    same = compiled(m__above="SELECT  1\n AS n -- one", m__below=below)
    other = compiled(m__above="SELECT 2 AS n", m__below=below)
    prints = [project.model("m.below").fingerprint for project in (first, same, other)]
    assert prints[0] == prints[1] != prints[2]


def test_a_model_or_a_partition_that_is_not_there_is_said(compiled: Compiled) -> None:
    project = compiled(m__daily=f"---\n{DAYS}\n---\nSELECT 1 AS n")
    with pytest.raises(ModelError, match=r"no model m\.dayly; did you mean 'm\.daily'"):
        project.model("m.dayly")
    model = project.model("m.daily")
    with pytest.raises(ModelError, match=r"m\.daily has no name dat under `for`"):
        scopes_of(model, {"dat": "1"})
    with pytest.raises(ModelError, match=r"m\.daily has no partition day=2024-03-04"):
        scopes_of(model, {"day": "2024-03-04"})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("shop=a/b", "a/b"),
        ("shop=a%2Fb", "a/b"),
        ("shop=../../etc", "../../etc"),
        ("shop=50%", "50%"),
        ("shop=50%25", "50%"),
        # Shown so comes before written so.
        ("shop=a%252Fb", "a%2Fb"),
        ("shop=x=y", "x=y"),
    ],
)
def test_a_value_may_be_given_as_it_is_written(compiled: Compiled, text: str, value: str) -> None:
    shops = "[a/b, ../../etc, 50%, a%2Fb, x=y]"
    project = compiled(m__daily=f"---\nfor:\n  n: [1]\n  shop: {shops}\n---\nSELECT 1 AS one")
    model = project.model("m.daily")
    for texts in ([text, "n=1"], [f"n=1/{text}"]):
        (scope,) = scopes_of(model, as_values(texts))
        assert scope["shop"] == value


def test_models_in_a_long_row_compile(compiled: Compiled) -> None:
    models = {"m__t0": "SELECT id, amount FROM s_d.sales"}
    models |= {f"m__t{n}": f"SELECT id, amount + 0 AS amount FROM m.t{n - 1}" for n in range(1, 40)}
    project = compiled(**models)
    assert project.problems == ()
    assert len(project.models) == 40
    assert compile_models([], compiled.catalogue, NOW).models == {}  # type: ignore[attr-defined]


def test_a_plan_says_what_changed_since_models_were_run(compiled: Compiled, contract: Path) -> None:
    ledger = Ledger(load_config(contract).ledger.url)
    daily = f"---\n{DAYS}\n---\nSELECT store, COUNT(*) AS n FROM s_d.sales GROUP BY store"
    above = "SELECT store,\n  n + 1 AS more\nFROM m.daily"
    first = compiled(m__daily=daily, m__above=above, m__alone="SELECT 1 AS n")
    assert [one.change for one in plan_models(first, ledger)] == ["added"] * 3
    for model in first.models.values():
        record_model(ledger, model)
    assert [one.change for one in plan_models(first, ledger)] == ["unchanged"] * 3

    other = compiled(m__daily=daily.replace("GROUP", "WHERE id > 1 GROUP"))
    said = {one.model: one for one in plan_models(other, ledger)}
    assert said["m.daily"].words == ("the query changed: its partitions are computed again",)
    assert [said[f"m.{name}"].change for name in ("daily", "above", "alone")] == [
        "changed",
        "changed",
        "unchanged",
    ]
    more = compiled(m__daily=daily.replace("AS n", "AS n, MAX(id) AS last"))
    said = {one.model: one for one in plan_models(more, ledger)}
    assert (said["m.daily"].change, said["m.daily"].words) == ("changed", ("last int is new",))

    (contract.parent / "models" / "m" / "alone.sql").unlink()
    retyped = compiled(m__daily=daily.replace("COUNT(*)", "CAST(COUNT(*) AS INT)"))
    said = {one.model: one for one in plan_models(retyped, ledger)}
    assert said["m.alone"].change == "removed"
    assert (said["m.daily"].change, said["m.daily"].words) == (
        "breaking",
        ("n was bigint, and is int",),
    )
    assert [words[words.index("models/") :] for words in said["m.daily"].readers] == [
        "models/m/above.sql:2:3: m.above reads n"
    ]
    # What reads a column that is gone does not compile, and is not called removed.
    gone = compiled(m__daily=daily.replace(", COUNT(*) AS n", ""))
    assert problem(gone).startswith("models/m/above.sql:2:3: there is no column n")
    assert {one.model: one.change for one in plan_models(gone, ledger)} == {
        "m.daily": "breaking",
        "m.alone": "removed",
    }


def test_a_stale_view_has_its_reason_and_what_is_stale_is_said_to_be(
    compiled: Compiled, contract: Path
) -> None:
    project = compiled(
        m__first="---\nmaterialized: view\n---\nSELECT id FROM s_d.sales",
        m__second="---\nmaterialized: view\n---\nSELECT id FROM m.first",
        m__never="SELECT id FROM s_d.sales",
        m__third="---\nmaterialized: view\n---\nSELECT id FROM m.never",
    )
    config = load_config(contract)
    ledger = Ledger(config.ledger.url)
    prints = {one.name: one.fingerprint for one in project.models.values()}
    made = {"m.first": "another", "m.second": prints["m.second"], "m.third": prints["m.third"]}
    ModelRecords(ledger).record_partitions(
        [
            ModelPartition(name, "", print_, "", 0, {}, 0, 1.0, "run")
            for name, print_ in made.items()
        ]
    )
    states = States(project, compiled.catalogue, Lake(config.lake), ledger)  # type: ignore[attr-defined]
    said = {name: states.of(project.models[name], {}) for name in made}
    assert (said["m.first"].word, said["m.first"].why) == ("stale", "the model changed")
    assert said["m.second"].why.endswith("m.first is stale")
    assert said["m.third"].why.endswith("m.never is not computed")
    assert {one.word for one in said.values()} == {"stale"}


def test_the_command_line_plans_and_shows(
    compiled: Compiled, contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORLAKE_CONFIG", str(contract))
    days = DAYS.replace("CURRENT_DATE", "'2024-03-04'")
    query = "SELECT id\nFROM s_d.sales WHERE sold_at >= day AND sold_at < day + 1"
    daily = f"---\n{days}\n---\n{query}"
    project = compiled(m__daily=daily, m__all="SELECT COUNT(*) AS n FROM m.daily")
    ran = CliRunner().invoke(cli, ["plan"])
    assert ran.exit_code == 0
    row = next(line.split() for line in ran.stdout.splitlines() if "s_d" in line)
    assert row == ["m.daily", "added", "2", "3", "s_d.sales"]
    record_model(Ledger(load_config(contract).ledger.url), project.model("m.daily"))
    compiled(m__daily=daily.replace("SELECT id", "SELECT store"), m__all="SELECT 1 AS n")
    ran = CliRunner().invoke(cli, ["plan"])
    assert (ran.exit_code, "m.daily: id is gone" in ran.stdout) == (20, True)
    ran = CliRunner().invoke(cli, ["show", "m.daily", "day=2024-03-02", "--sql"])
    assert ran.stdout.splitlines()[1] == (
        "FROM s_d.sales WHERE sold_at >= DATE '2024-03-02' AND sold_at < DATE '2024-03-02' + 1"
    )
    ran = CliRunner().invoke(cli, ["show", "m.daily", "day=2024-03-02"])
    assert "s_d.sales   sold_at: 2024-03-02" in ran.stdout
    ran = CliRunner().invoke(cli, ["show", "m.daily", "day=2024-03-02", "--json"])
    assert json.loads(ran.stdout)["partition"]["inputs"] == [
        {
            "table": "s_d.sales",
            "column": "sold_at",
            "days": [["2024-03-02", "2024-03-02"]],
            "all": False,
        }
    ]
    for arguments, words in (
        (["show", "m.daily", "day"], "'day' is no NAME=VALUE"),
        (["show", "m.daily", "day=1", "day=2"], "day is given twice"),
        (["show", "m.daily", "--sql"], "--sql is of one partition"),
    ):
        ran = CliRunner().invoke(cli, arguments)
        assert (ran.exit_code, words in ran.stderr) == (2, True)
