"""The dataset of raw lets the dataset of the views of current rows in, and nobody has to write it."""

from __future__ import annotations

from pathlib import Path

from mirrorlake.config import load_config
from mirrorlake.config.grants import AUTHORISED, Grant
from mirrorlake.config.permissions import DatasetPermissions
from mirrorlake.operations.bigquery.dataset_access import with_views

FILE = """
version: 1
bigquery: {project: my-project, bucket: my-bucket}
defaults: {publish: [lake, bigquery]}
sources:
  s:
    host: h
    user: u
    databases:
      d: {tables: {t: {mode: append, key: [id], cursor: id, bigquery: {load: raw}}}}
      e: {tables: {t: {mode: append, key: [id], cursor: id}}}
"""


def test_each_dataset_lets_in_what_is_over_it(tmp_path: Path) -> None:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(FILE)
    config = load_config(path)
    assert config.datasets_of_raw == {"s_d__raw": {"s_d"}}
    names = ("s_d__raw", "s_d", "s_e__raw")
    declared = [DatasetPermissions(name, frozenset(), "here") for name in names]
    found = {one.dataset: one.grants for one in with_views(config, declared)}

    def lets_in(name: str) -> frozenset[Grant]:
        return frozenset({Grant(f"dataset:my-project.{name}", AUTHORISED)})

    assert found["s_d__raw"] == lets_in("s_d")
    assert found["s_d"] == lets_in("s_d__views_clean")
    assert found["s_e__raw"] == frozenset()
