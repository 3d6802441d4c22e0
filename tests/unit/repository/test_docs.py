"""The documents say what is there: files, links, variables, decisions. Their code blocks are read in
`test_doc_blocks.py`."""

from __future__ import annotations

import ast
import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

from mirrorlake.config import load_config

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in ROOT.glob("mirrorlake/**/*.py")
    if "    >>> " in path.read_text("utf-8")
)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# Roots of paths in this repository, as prose writes them.
PATH = re.compile(
    r"`((?:mirrorlake|demo|docs|tests|tools|assets|checks|resources|sensors|benchmarks|\.ci)/[\w./-]*)`"
)


def sections(page: Path) -> dict[str, str]:
    """Second-level headings and what stands under them."""
    parts = re.split(r"^## (.+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def first_column(text: str, head: str) -> list[str]:
    """The code words in the first column of the table under ``head``, a line's beginning."""
    _, found, rest = text.partition(f"\n| {head}")
    assert found, f"no table {head!r}"
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [word for line in lines for word in re.findall(r"`([^`]+)`", line.split("|")[1])]


def test_every_environment_variable_is_documented() -> None:
    named: set[str] = set()
    for folder in ("mirrorlake", "demo", "assets", "checks", "resources", "sensors", "tools"):
        for path in ROOT.joinpath(folder).rglob("*.py"):
            named |= variables_in(path)
    named |= variables_in(ROOT / "definitions.py")
    page = sections(ROOT / "docs" / "configuration.md")
    assert set(first_column(page["Environment"], "variable |")) == named


def variables_in(path: Path) -> set[str]:
    """Names of Mirrorlake's variables in a module's texts, comments and examples left out."""
    tree = ast.parse(path.read_text("utf-8"))
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    return {t for t in texts if isinstance(t, str) and re.fullmatch(r"MIRRORLAKE_[A-Z_]+", t)}


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings get, by GitHub's rule."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    links += re.findall(r"^\[[^\]]+\]: (\S+)$", prose(page), flags=re.MULTILINE)
    for link in links:
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_that_the_code_names_is_there() -> None:
    named: set[str] = set()
    for folder in ("mirrorlake", "dagster_mirrorlake", "demo", "tools", "benchmarks"):
        for path in ROOT.joinpath(folder).rglob("*.py"):
            named |= set(re.findall(r"docs/[\w/-]+\.md(?:#[\w-]+)?", path.read_text("utf-8")))
    assert len(named) > 10
    for link in named:
        page, _, anchor = link.partition("#")
        assert ROOT.joinpath(page).is_file(), link
        assert not anchor or anchor in anchors(ROOT / page), link


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_that_is_named_is_there(page: Path) -> None:
    for path in PATH.findall(prose(page)):
        assert ROOT.joinpath(path).exists(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_make_target_that_is_named_is_there(page: Path) -> None:
    makefile = ROOT.joinpath("Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text("utf-8"), flags=re.MULTILINE):
        assert target in targets, target


def test_the_two_commands_are_in_the_readme() -> None:
    assert "```sh\nmake demo\nmake test\n```" in ROOT.joinpath("README.md").read_text("utf-8")


def test_the_licence_is_apaches_own_text() -> None:
    text = ROOT.joinpath("LICENSE").read_text("utf-8")
    assert "Version 2.0, January 2004" in text
    assert text.rstrip().endswith("limitations under the License.")


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_docstrings_are_true(module: str) -> None:
    found = doctest.testmod(import_module(module.removesuffix(".__init__")))
    assert found.attempted
    assert not found.failed


def test_the_config_of_the_readme_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ROOT.joinpath("README.md").read_text("utf-8")
    [example] = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(example)
    monkeypatch.setenv("SHOP_PASSWORD", "a-password")
    monkeypatch.setenv("MIRRORLAKE_HASH_KEY", "0123456789abcdef" * 4)
    [table] = load_config(path).tables
    named = set(re.findall(r"^\| `(shop_shop[\w]*)\.", text, flags=re.MULTILINE))
    spaces = table.namespaces
    assert named == {spaces.raw, spaces.deduped, spaces.clean}


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "adr"
    index = folder.joinpath("README.md").read_text("utf-8")
    for page in sorted(folder.glob("0*.md")):
        title = page.read_text("utf-8").splitlines()[0].partition(". ")[2]
        assert f"| {int(page.name[:4])} | [{title}]({page.name}) |" in index, page.name


# Pages that are written from code, figures or types, and that nobody reads from end to end.
REFERENCE = {"cli.md", "performance.md", "reliability.md", "types.md"}
PAGES_TO_READ = [
    *((page, 600) for page in sorted(ROOT.glob("docs/adr/0*.md"))),
    *((p, 1_500) for p in sorted(ROOT.glob("docs/*.md")) if p.name not in REFERENCE),
]


@pytest.mark.parametrize(("page", "most"), PAGES_TO_READ, ids=lambda p: getattr(p, "stem", ""))
def test_a_page_can_be_read_in_minutes(page: Path, most: int) -> None:
    words = re.findall(r"\S*\w\S*", page.read_text("utf-8"))
    assert len(words) <= most


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_catalogs_address_is_in_the_pages_own_warehouse(page: Path) -> None:
    """By default the catalog is a file in the warehouse."""
    text = page.read_text("utf-8")
    for folder in re.findall(r"sqlite:/+([^\s?\"]+)/catalog\.db", text):
        named = re.findall(r"(?:in|warehouse[:=]) ?`?(?:file:/+)?/?([\w./]+)", text)
        assert folder in named, f"{page.name}: no warehouse {folder}"


def named_places(section: str, lines: str) -> list[str]:
    """The lines of a section of CONTRIBUTING that name places."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    return re.findall(lines, text.partition(f"## {section}")[2].partition("\n## ")[0], re.MULTILINE)


@pytest.mark.parametrize("row", named_places("Find it", r"^\| .+ \| (.*`.+) \|$"))
def test_contributing_names_files_and_symbols_that_exist(row: str) -> None:
    """Each path under "Find it" is there, at most two; a name behind one is defined in that file."""
    place, steps = ROOT, 0
    for name in re.findall(r"`([^`]+)`", row):
        if "/" in name:
            place, steps = ROOT / name, steps + 1
            assert place.exists(), name
        else:
            defined = rf"^ *(?:class|def) {re.escape(name)}\b|^{re.escape(name)}\b.* ="
            assert re.search(defined, place.read_text("utf-8"), re.MULTILINE), (name, place)
    assert 1 <= steps <= 2


def test_contributing_answers_at_least_twenty_questions() -> None:
    assert len(named_places("Find it", r"^\| .+ \| (.*`.+) \|$")) >= 20


def test_the_core_is_fifteen_files() -> None:
    """A step is a number, a file and what is in it."""
    found = named_places("Find your way", r"^\d+\. `(mirrorlake/\S+\.py)`: .+$")
    assert len(found) == len(set(found)) == 15
    assert [name for name in found if not (ROOT / name).is_file()] == []
