"""`permissions.yaml`: what it declares, and what is refused in it, each at its line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.permissions.declared_datasets import permissions_schema
from mirrorlake.permissions.grants import Grant
from mirrorlake.permissions.permissions_file import load_permissions

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "bigquery-permissions.md").read_text("utf-8")
OWNER = "group:p@x.de: owner"
IN = "{{user:ann@x.de: owner, group:{}@x.de: member}}"
SECTIONS = {
    "The file": None,
    "datasets.<dataset>": "DatasetSection",
    "datasets.<dataset>.exceptions.<user>": "UserException",
    "datasets.<dataset>.authorised": "AuthorisedObjects",
}


def written(folder: Path, text: str) -> Path:
    path = folder / "permissions.yaml"
    path.write_text(text, "utf-8")
    return path


def refused(folder: Path, text: str) -> list[str]:
    """What is wrong with a text: each problem as ``line:column: path: words``."""
    with pytest.raises(ConfigError) as found:
        load_permissions(written(folder, text), "p")
    _, *lines = str(found.value).splitlines()
    return [line.removeprefix(f"{folder / 'permissions.yaml'}:") for line in lines]


def test_the_example_declares_what_it_says(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.+?)```", PAGE, flags=re.DOTALL)[:1]
    clean, primary = sorted(
        load_permissions(written(tmp_path, example), "my-project").datasets,
        key=lambda one: -len(one.dataset),
    )
    accounts = {
        Grant("group:platform@example.com", "owner"),
        Grant("serviceAccount:permissions@my-project.iam.gserviceaccount.com", "owner"),
        Grant("serviceAccount:mirrorlake@my-project.iam.gserviceaccount.com", "writer"),
    }
    assert primary.grants == accounts
    assert clean.grants == accounts | {
        Grant("group:analysts@example.com", "reader"),
        Grant("group:finance@example.com", "reader"),
        Grant("user:ann@example.com", "reader"),
    }
    assert [*clean.reasons.values()] == ["audit of 2026, until March"]
    assert clean.place.startswith(f"{tmp_path / 'permissions.yaml'}:")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("datasets: {d: {principals: {group:p@x.de: ownr}}}", "1:29: datasets.d.principals.\"group:p@x.de\"[0]: 'ownr' is no role on a dataset; did you mean 'owner'?"),
        (f"datasets: {{d: {{principals: {{{OWNER}, groop:a@x.de: reader}}}}}}", "'groop:a@x.de' is no principal: write group:<address>"),
        (f"datasets: {{d: {{principals: {{{OWNER}, group:a: reader}}}}}}", "'a' is no address, like name@example.com"),
        (f"datasets: {{d: {{principals: {{{OWNER}, serviceAccount:a@x.de: reader}}}}}}", "'a@x.de' is no serviceAccount's address, but that of a user"),
        (f"datasets: {{d: {{principals: {{{OWNER}, special:projectowners: reader}}}}}}", "did you mean 'projectOwners'?"),
        (f"datasets: {{d: {{principals: {{{OWNER}, domain:a b: reader}}}}}}", "'a b' is no domain, like example.com"),
        (f"datasets: {{d: {{principals: {{{OWNER}, user:a@x.de: reader}}}}}}", "'user:a@x.de' is a person: write it under exceptions"),
        (f"datasets: {{d: {{principals: {{{OWNER}}}, exceptions: {{user:a@x.de: {{role: reader}}}}}}}}", "reason: is missing"),
        (f"datasets:\n  d:\n    principals:\n      {OWNER}\n      group:P@x.de: reader", '5:7: datasets.d.principals."group:P@x.de": group:p@x.de is declared already, by group:p@x.de: leave one of them out'),
        (f"datasets:\n  d:\n    principals:\n      {OWNER}\n      {OWNER}", "5:7: datasets.d.principals.\"group:p@x.de\": this key is already on line 4: keep one of them"),
        (f"sets: {{s: [group:p@x.de]}}\ndatasets: {{d: {{principals: {{{OWNER}, set:s: reader}}}}}}", "group:p@x.de is declared already, by group:p@x.de"),
        ("datasets:\n  d: {}\n  d: {}", "3:3: datasets.d: this key is already on line 2: keep one of them"),
        ("datasets:\n  d:\n    principals: {group:a@x.de: writer}", "2:3: datasets.d: no owner is declared: applying this would remove the last one"),
        ("sets:\n  a: [set:b]\n  b: [group:x@x.de, set:a]\ndatasets: {d: {principals: {set:a: owner}}}", "2:7: sets.a[0]: the set 'a' contains itself, through b: leave this out"),
        ("sets: {a: [set:a]}\ndatasets: {d: {principals: {set:a: owner}}}", "the set 'a' contains itself"),
        ("datasets: {d: {principals: {set:a: owner}}}", "there is no set 'a'"),
        (f"datasets: {{d: {{principals: {{{OWNER}, special:allAuthenticatedUsers: writer}}}}}}", "is everybody, who may be no more than reader"),
        (f"datasets: {{d: {{principals: {{{OWNER}}}, authorised: {{views: [v]}}}}}}", "'v' is not written like dataset.name"),
        (f"datasets: {{d: {{principals: {{{OWNER}}}, authorised: {{views: [a.v, a.v]}}}}}}", "a.v is declared twice"),
        (f"datasets: {{d: {{principals: {{{OWNER}}}}}}}\nxyzzy: {{}}", "2:1: xyzzy: unknown key; known are sets, datasets, groups"),
        (f"datasets: {{d: {{principals: {{{OWNER}}}}}}}\nlake: {{place: gs://b}}", "2:1: lake: was removed: Mirrorlake writes no policies for files"),
        (f"datasets: {{d: {{principals: {{{OWNER}}}}}}}\ngroups: {{}}", "2:9: groups: is empty"),
        ("groups: {a@x.de: {user:ann@x.de: ownr}}", "1:34: groups.\"a@x.de\".\"user:ann@x.de\": 'ownr' is not 'owner', 'manager' or 'member'; did you mean 'owner'?"),
        ("groups: {a: {user:ann@x.de: owner}}", "1:10: groups.a: 'a' is no address, like name@example.com"),
        ("groups: {a@x.de: {user:ann@x.de: owner, domain:x.de: member}}", "'domain:x.de' can't be in a group: write user:, serviceAccount: or group:<address>"),
        ("groups: {a@x.de: {user:ann@x.de: owner, ann@x.de: member}}", "'ann@x.de' is no principal"),
        ("groups:\n  a@x.de:\n    user:ann@x.de: owner\n    user:Ann@x.de: member", '4:5: groups."a@x.de"."user:Ann@x.de": is a member already, as user:ann@x.de'),
        ("groups:\n  a@x.de: {user:ann@x.de: owner}\n  A@x.de: {user:ann@x.de: owner}", '3:3: groups."A@x.de": the group is declared already, as a@x.de'),
        ("groups:\n  a@x.de: {group:b@x.de: owner}", "a group alone owns it, which may have nobody in it"),
        ("groups:\n  a@x.de: {user:ann@x.de: owner, group:A@x.de: member}", '2:34: groups."a@x.de"."group:A@x.de": the group a@x.de contains itself: leave this out'),
        (f"groups:\n  a@x.de: {IN.format('b')}\n  b@x.de: {IN.format('c')}\n  c@x.de: {IN.format('a')}", '2:34: groups."a@x.de"."group:b@x.de": the group a@x.de contains itself, through b@x.de, c@x.de: leave this out'),
        (f"datasets: {{d: {{principals: {{{OWNER}}}, rows: {{}}}}}}", "unknown key"),
        (f"datasets: {{d-e: {{principals: {{{OWNER}}}}}}}", "'d-e' is no dataset's name"),
        ("datasets: {d: {principals: {group:p@x.de: []}}}", "is empty"),
        (f"datasets: {{d: {{principals: {{{OWNER}}}, tables: {{t: {{rows: {{}}}}}}}}}}", "1:51: datasets.d.tables: was removed: policies of rows and columns are BigQuery's own DDL"),
        ("datasets: {}", "datasets: is empty"),
        ("sets: {}", "datasets: is missing"),
        ("datasets: [", "not valid YAML"),
    ],
)  # fmt: skip
def test_what_cannot_be_declared_is_named(text: str, problem: str, tmp_path: Path) -> None:
    lines = refused(tmp_path, text)
    assert any(problem in line for line in lines), lines


def test_groups_have_one_spelling(tmp_path: Path) -> None:
    text = "groups:\n  B@x.de: {user:Ann@x.de: manager, group:A@x.de: member}\n"
    [found] = load_permissions(written(tmp_path, text), "p").groups
    assert (found.address, found.place) == ("b@x.de", f"{tmp_path / 'permissions.yaml'}:2:3")
    assert found.members == {Grant("user:ann@x.de", "manager"), Grant("group:a@x.de", "member")}


def test_a_file_that_is_empty_or_missing_declares_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the permissions file is empty\. Write one"):
        load_permissions(written(tmp_path, "# nothing"), "p")
    with pytest.raises(ConfigError, match="there is no permissions file"):
        load_permissions(tmp_path / "other.yaml", "p")


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    text = "datasets:\n  a: {principals: {x: y}}\n  b: {}\n  c: {principals: {group:a: owner}}"
    assert len(refused(tmp_path, text)) == 3


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_field_is_documented(heading: str) -> None:
    parts = re.split(r"^##+ `?(.+?)`?$", PAGE, flags=re.MULTILINE)
    section = dict(zip(parts[1::2], parts[2::2], strict=True))[heading]
    table = section.partition("| field |")[2].partition("\n\n")[0]
    schema = permissions_schema()
    definition = SECTIONS[heading]
    fields = (schema if definition is None else schema["$defs"][definition])["properties"]
    assert re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE) == list(fields)


def test_the_schema_in_docs_is_current() -> None:
    text = (DOCS / "permissions.schema.json").read_text("utf-8")
    written = "run: mirrorlake permissions schema > docs/permissions.schema.json"
    assert json.loads(text) == permissions_schema(), written


def test_a_list_of_wrong_items_is_not_called_empty(tmp_path: Path) -> None:
    path = tmp_path / "permissions.yaml"
    text = f"datasets: {{d: {{principals: {{{OWNER}, group:a@x.de: [ownr]}}}}}}"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_permissions(path, "p")
    assert '"group:a@x.de"[0]: ' in str(raised.value)
    assert "is empty" not in str(raised.value)
    path.write_text(text.replace("[ownr]", "[]"))
    with pytest.raises(ConfigError, match="is empty"):
        load_permissions(path, "p")
