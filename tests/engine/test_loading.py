"""Rule files: what is read, what is refused and where it says so, the bundle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kerneldoctor.engine import loading
from kerneldoctor.errors import RuleError

GOOD = """```toml
id = "ORG0001"
name = "own-rule"
title = "t"
diagnosis = "d"
severity = "warning"
confidence = "reported"
component = "torch"
added = 2026-12-01
review_by = 2027-12-01

[when]
fact = "torch.cuda"
in = ">=13"
```

# What you see
"""


def write(folder: Path, text: str, name: str = "ORG0001-own-rule.md") -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder


def test_a_rule_is_read_with_its_page(tmp_path: Path) -> None:
    [rule] = loading.load_rules(write(tmp_path, GOOD))
    assert (rule.id, rule.added, rule.body) == ("ORG0001", "2026-12-01", "# What you see")


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('severity = "warning"', 'severity = "fatal"', 6, "one of error, warning, info"),
        ('title = "t"', 'title = 5', 4, "title in rule must be a str"),
        ('component = "torch"', 'component = "torch"\ncolour = "red"', 9, "unknown key 'colour'"),
        ('in = ">=13"', 'within = ">=13"', 13, "exactly one of"),
        ('in = ">=13"', 'in = ">=13"\nis = "x"', 13, "exactly one of"),
        ('in = ">=13"', "matches = '(a+)+b'", 14, "exponential"),
        ('in = ">=13"', "matches = '('", 14, "bad pattern"),
        ("diagnosis = \"d\"\n", "", 1, "lacks 'diagnosis'"),
        ('id = "ORG0001"', 'id = ORG0001', 2, "Invalid value"),
        ('id = "ORG0001"', 'id = "org-1"', 2, "capitals and four digits"),
        ("```toml", "---", 1, "toml fence"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_with_file_and_line(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    with pytest.raises(RuleError) as error:
        loading.load_rules(write(tmp_path, GOOD.replace(old, new)))
    assert str(error.value).startswith(f"ORG0001-own-rule.md:{line}: ")
    assert says in str(error.value)


def test_an_id_may_be_used_once_and_no_shipped_one_may_be_shadowed(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, GOOD, "ORG0001-again.md")
    with pytest.raises(RuleError, match="already used by"):
        loading.load_rules(tmp_path)
    (tmp_path / "ORG0001-again.md").unlink()
    shipped = loading.shipped_rules()[0]
    write(tmp_path, GOOD.replace("ORG0001", shipped.id))
    with pytest.raises(RuleError, match=f"id {shipped.id} is already used"):
        loading.all_rules((tmp_path,))


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no such folder"):
        loading.load_rules(tmp_path / "nowhere")


def test_a_folder_without_rules_is_no_folder_of_rules(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("rules of ours")
    with pytest.raises(RuleError, match="no rule files in"):
        loading.load_rules(tmp_path)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(write(tmp_path, GOOD) / "ORG0002-pipe.md")
    with pytest.raises(RuleError, match=r"ORG0002-pipe.md:1: .*named pipe"):
        loading.load_rules(tmp_path)


def test_files_of_windows_editors_are_read(tmp_path: Path) -> None:
    [path] = write(tmp_path, GOOD).glob("*.md")
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert [rule.id for rule in loading.load_rules(tmp_path)] == ["ORG0001"]


def test_the_bundle_holds_what_the_files_hold(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "gpus.toml").write_text('[[row]]\nname = "H200"\nsource = "x"\n')
    rules, tables = loading.parse_bundle(loading.write_bundle(tmp_path).read_text("utf-8"))
    assert rules == loading.load_rules(tmp_path)
    assert rules[0].body == "# What you see"
    assert dict(tables) == {"gpus": ({"name": "H200", "source": "x"},)}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of rules that is taken for the shipped one."""
    (tmp_path / "own").mkdir()
    write(tmp_path / "own", GOOD)
    monkeypatch.setattr(loading, "rules_folder", lambda: tmp_path)
    monkeypatch.setattr(loading, "_shipped", loading._shipped.__wrapped__)
    return tmp_path


def ids() -> list[str]:
    return [rule.id for rule in loading.shipped_rules()]


def test_a_bundle_that_is_in_date_is_read_and_not_the_files(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loading.write_bundle(checkout)
    monkeypatch.setattr(loading, "compile_bundle", lambda folder: pytest.fail("the files were read"))
    assert ids() == ["ORG0001"]


@pytest.mark.parametrize(
    "left_over",
    [
        '{"rules":[],"tables":[]}',  # of the time before formats
        '{"format":1,"rules":[{"what":"ever"}],"tables":[]}',
        '{"format":2000,"rules":[],"tables":[]}',
        '{"form',
        "",
    ],
)
def test_a_bundle_of_other_code_is_made_again(checkout: Path, left_over: str) -> None:
    (checkout / loading.BUNDLE).write_text(left_over)
    assert ids() == ["ORG0001"]


def test_an_edited_a_new_and_a_removed_rule_are_seen(checkout: Path) -> None:
    for change in (
        lambda: write(checkout / "own", GOOD.replace("ORG0001", "ORG0002"), "second.md"),
        lambda: write(checkout / "own", GOOD.replace("ORG0001", "ORG0003"), "second.md"),
        lambda: (checkout / "own" / "second.md").unlink(),
    ):
        bundle = loading.write_bundle(checkout)
        then = bundle.stat().st_mtime + 1
        change()
        for path in (checkout / "own", *(checkout / "own").iterdir()):
            os.utime(path, (then, then))
        assert ids() == [rule.id for rule in loading.load_rules(checkout)]


def test_code_that_changed_since_compiles_again(checkout: Path) -> None:
    bundle = loading.write_bundle(checkout)
    bundle.write_text(bundle.read_text().replace("ORG0001", "ORG0009"))
    assert ids() == ["ORG0009"]
    for path in (checkout / "own", *(checkout / "own").iterdir()):
        os.utime(path, (0, 0))
    os.utime(bundle, (1, 1))  # newer than every rule, older than our code
    assert ids() == ["ORG0001"]
