"""What of a model can't be in BigQuery is said with its place when models are compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mirrorlake.bigquery.models import models_in_bigquery
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.models.contract_models import compile_project

Compile = Callable[..., str]
HEADER = "---\npublish: [lake, bigquery]\n---\n"
ONE = "SELECT 1 AS n"


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compiles one model, and gives what is wrong with it."""
    monkeypatch.setenv("NO_SUCH_PASSWORD", "x")

    def run(text: str, file: str = "d/m.sql", section: bool = True) -> str:
        table = {"mode": "full", "key": ["id"], "publish": ["lake", *["bigquery"] * section]}
        contract = {
            "version": 1,
            "lake": {"warehouse": "lake"},
            "ledger": {"url": "sqlite:///ledger.db"},
            "sources": {
                "s": {
                    "host": "127.0.0.1",
                    "user": "mirror",
                    "password": "${env:NO_SUCH_PASSWORD}",
                    "databases": {"d": {"tables": {"t": table}}},
                }
            },
        }
        contract |= {"bigquery": {"project": "p-1", "bucket": "some-bucket"}} if section else {}
        path = tmp_path / "mirrorlake.yaml"
        path.write_text(yaml.safe_dump(contract))
        model = tmp_path / "models" / file
        model.parent.mkdir(parents=True)
        model.write_text(text)
        config = load_config(path)
        project, _ = compile_project(config, Lake(config.lake))
        return "\n".join(map(str, project.problems)).replace(f"{tmp_path}/models/", "")

    return run


def test_a_model_that_can_be_there_compiles(said: Compile, tmp_path: Path) -> None:
    layout = "---\nfor: {day: [2026-01-01]}\npublish: [lake, bigquery]\n---\n"
    assert said(f"{layout}SELECT 1 AS n, TRUE AS b, CAST(1 AS DECIMAL(38,20)) AS d") == ""
    config = load_config(tmp_path / "mirrorlake.yaml")
    [found], broken = models_in_bigquery(config, lambda: Lake(config.lake))
    assert (found.name, str(found.identifier), broken) == ("model d.m", "d.m", {})


@pytest.mark.parametrize(
    ("header", "query", "wanted"),
    [
        (
            "publish: [lake, bigquery]",
            "SELECT 1 AS n,\n  ARRAY(1, 2) AS several",
            "d/m.sql:5:3: column 'several' (array<int>) can't be in BigQuery",
        ),
        (
            "publish: [lake, bigquery]",
            "SELECT 1 AS _partition_n",
            "d/m.sql:4:8: column '_partition_n' (int) can't be in BigQuery",
        ),
        (
            "publish: [lake, bigquery]\nmaterialized: view",
            ONE,
            "d/m.sql:2:10: publish: a view has no rows of its own",
        ),
        ("publish: [bigquery]", ONE, "d/m.sql:2:10: publish: write [lake] or [lake, bigquery]"),
        (
            "bigquery: {partition_by: n}",
            ONE,
            "d/m.sql:2:1: bigquery: the model is published in the lake alone",
        ),
        (
            "publish: [lake, bigquery]\nbigquery: {partition_by: n}",
            ONE,
            "partitioned by 'n', which is int",
        ),
    ],
)
def test_what_cannot_be_there_is_refused_with_its_place(
    header: str, query: str, wanted: str, said: Compile
) -> None:
    assert wanted in said(f"---\n{header}\n---\n{query}")


def test_without_a_section_nobody_knows_where(said: Compile) -> None:
    found = said(f"{HEADER}{ONE}", section=False)
    assert "d/m.sql:2:1: mirrorlake.yaml has no section bigquery" in found


def test_a_dataset_of_views_takes_no_model(said: Compile) -> None:
    found = said(f"{HEADER}{ONE}", "s_d__views_clean/m.sql")
    assert "the dataset s_d__views_clean has the views of mirrored tables there" in found
