"""The pages for users: what they show is in the files that they name."""

import difflib
import re
import textwrap

import pytest

import lacuna
import lacuna_tables
from conftest import HERE

ROOT = HERE.parent
PAGES = ["README.md", "ADVANCED.md", "BENCHMARKS.md"]


def loop(name):
    """The lines of an example from its loader to its end of training."""
    text = (ROOT / "examples" / name).read_text()
    text = text[text.index("    loader = DataLoader") :]
    return textwrap.dedent(text[: text.index("    return ")]).splitlines()


def test_the_loop_before_and_after_is_that_of_the_examples():
    page = (ROOT / "README.md").read_text()
    both = difflib.unified_diff(loop("cnn_plain.py"), loop("cnn_lacuna.py"), n=1000, lineterm="")
    lines = [line.rstrip() for line in both][3:]
    assert re.findall(r"```diff\n(.*?)\n```", page, re.DOTALL) == ["\n".join(lines)]
    gone, come = (sum(line[0] == sign for line in lines) for sign in "-+")
    said = re.search(r"of the loop (\d+) lines go and (\d+) come", " ".join(page.split()))
    assert said is not None and [int(n) for n in said.groups()] == [gone, come]


@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_calls_is_there(page):
    text = (ROOT / page).read_text()
    found = re.findall(r"```(?:python|diff)\n(.*?)```|`([^`\n]+)`", text, re.DOTALL)
    code = "\n".join(one or other for one, other in found)
    for name in set(re.findall(r"\brun\.([a-z_]+)", code)):
        assert hasattr(lacuna.Elastic, name), f"run.{name}"
    for name in set(re.findall(r"-m lacuna\.([a-z_]+)", code)):
        assert (ROOT / "src" / "lacuna" / f"{name}.py").exists(), name
    for name in set(re.findall(r"-m benches[. ]([a-z_]+)", code)):
        assert (ROOT / "benches" / f"{name}.py").exists(), name
    for name in set(re.findall(r"(?<!-m )\blacuna\.([A-Z][a-z_A-Z]+)\(", code)):
        assert hasattr(lacuna, name), f"lacuna.{name}"
    for name in set(re.findall(r"\blacuna_tables\.([A-Z][a-z]+)\(", code)):
        assert hasattr(lacuna_tables, name), f"lacuna_tables.{name}"


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        name, _, anchor = link.partition("#")
        target = ROOT / (name or page)
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link
