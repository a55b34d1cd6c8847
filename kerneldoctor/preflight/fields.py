"""Takes typed values out of a configuration and collects what is wrong with it: which key, where, what was wanted."""

from __future__ import annotations

import datetime
import difflib
import math
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..errors import UsageError
from ..hub.reference import Kind, parse_reference
from ..report.model import Ignore

Word = TypeVar("Word", bound=str)
_NEARLY = 0.9  # likeness: "drivr" is driver, "torchao" is a package
_SHOWN = 60  # characters of a wrong value


class Reader:
    """One configuration (or flags alone, with file ""), and its mistakes so far. `flags`: keys that it does not say."""

    def __init__(self, file: str, text: str, flags: Collection[str] = ()) -> None:
        self.file, self._flags = file, flags
        self._found: list[tuple[bool, int, str]] = []  # not in the file, line, words
        self._lines = text.splitlines()

    @property
    def mistakes(self) -> list[str]:
        """What is wrong, in the order of the file, of flags afterwards."""
        return [words for _, _, words in sorted(self._found, key=lambda mistake: mistake[:2])]

    def complain(self, key: str, what: str) -> None:
        """Note a mistake at a key."""
        line, flagged = self._line_of(key), key.partition(".")[0] in self._flags
        where = f"{self.file}:{line}: " if self.file and line else f"{self.file}: " if self.file else ""
        where = "" if flagged else where
        self._found.append((not where, line, where + what))

    def wrong(self, key: str, value: Any, wanted: str) -> None:
        """Note that a value is not of the kind that is wanted."""
        self.complain(key, f"{key} is {_kind(value)}, and must be {wanted}")

    def known(self, table: Mapping[str, Any], keys: Collection[str], inside: str) -> None:
        """Note every key that nobody reads, with the nearest right one."""
        for key in table:
            if key in keys:
                continue
            near = difflib.get_close_matches(str(key).replace("_", "-").lower(), keys, 1, 0.5)
            hint = f"; the nearest is {near[0]!r}" if near else f"; there are {', '.join(keys)}"
            self.complain(str(key), f"no key is called {str(key)[:_SHOWN]!r}{f' in {inside}' if inside else ''}{hint}")

    def table(self, key: str, value: Any, keys: Collection[str] | None) -> Mapping[str, Any]:
        """A table with these keys (None for any)."""
        if not isinstance(value, dict):
            self.wrong(key, value, "a table")
            return {}
        if keys is not None:
            self.known(value, keys, key)
        return value

    def text(self, table: Mapping[str, Any], key: str, inside: str = "") -> str:
        """A text that is not empty, or "" where there is none."""
        value = table.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value or ""
        self.wrong(inside + key, value, "a text")
        return ""

    def texts(
        self, table: Mapping[str, Any], key: str, inside: str = "", or_one: bool = False
    ) -> tuple[str, ...] | None:
        """A list of texts, None where there is none. or_one: a single text as well."""
        value = table.get(key)
        if or_one and isinstance(value, str) and value.strip():
            return (value,)
        if value is None:
            return None
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) and item.strip() for item in value):
            return tuple(value)
        self.wrong(inside + key, value, "a text, or a list of texts" if or_one else "a list of texts")
        return ()

    def flag(self, table: Mapping[str, Any], key: str, inside: str = "") -> bool | None:
        """True or false, None where it is left open."""
        value = table.get(key)
        if value is not None and not isinstance(value, bool):
            self.wrong(inside + key, value, "true or false")
            return None
        return value

    def choice(
        self, table: Mapping[str, Any], key: str, words: tuple[Word, ...], usual: Word, inside: str = ""
    ) -> Word:
        """One of the words."""
        value = table.get(key)
        if value is None:
            return usual
        found = next((word for word in words if word == value), None)
        if found is None:
            near = difflib.get_close_matches(str(value).lower(), words, 1, 0.5)
            hint = f"; the nearest is {near[0]!r}" if near else ""
            self.wrong(inside + key, value, f"one of {', '.join(words)}{hint}")
        return found or usual

    def number(
        self, table: Mapping[str, Any], key: str, usual: float, unit: str, low: float, high: float, inside: str = ""
    ) -> float:
        """A number within limits."""
        value = table.get(key)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            self.wrong(inside + key, value, f"a number of {unit}")
        elif not low <= value <= high:
            self.wrong(inside + key, value, f"a number of {unit} from {low:g} to {high:g}")
        else:
            return float(value)
        return usual

    def whole(self, table: Mapping[str, Any], key: str, low: int, high: int, inside: str = "") -> int | None:
        """A whole number within limits, None where there is none."""
        value = table.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(inside + key, value, f"a whole number from {low} to {high}")
            return None
        return value

    def release(self, table: Mapping[str, Any], key: str, inside: str) -> str:
        """A release as text: TOML reads 2.10 as the number 2.1."""
        value = table.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.wrong(inside + key, value, 'a release in quotes, as in "2.10", which without them is 2.1')
            return ""
        try:
            found = Version(value if isinstance(value, str) else "")
        except InvalidVersion:
            self.wrong(inside + key, value, 'a release, as in "2.10"')
            return ""
        if found.local:
            hint = "; what torch is built for is asked by cuda" if key == "torch" else ""
            self.wrong(inside + key, value, f"a release without +{found.local}, by which none is newer{hint}")
        return found.public

    def range(self, table: Mapping[str, Any], key: str, inside: str) -> str:
        """A range of releases such as ">=9.0", or one release; "" where there is none."""
        value = table.get(key)
        if value is None:
            return ""
        text = value.strip() if isinstance(value, str) else ""
        try:
            return str(SpecifierSet(f"=={Version(text)}" if re.fullmatch(r"[\d.]+", text) else text)) if text else ""
        except (InvalidSpecifier, InvalidVersion):
            text = ""
        finally:
            if not text:
                self.wrong(inside + key, value, 'a range in quotes, as in ">=9.0"')
        return ""

    def reference(self, item: Mapping[str, Any]) -> str:
        """The name of a kernel, as transformers takes it."""
        text = self.text(item, "reference", "kernels.")
        if "reference" not in item:
            self.complain("kernels", "a kernel has no reference")
        try:
            parsed = parse_reference(text) if text else None
        except UsageError as error:
            self.complain(text, str(error))
            return ""
        if parsed is not None and parsed.kind is Kind.BUILTIN:
            self.complain(text, f"{text} is attention that transformers and torch bring themselves: nothing to check")
            return ""
        return str(parsed or "")

    def ignores(self, table: Mapping[str, Any]) -> tuple[Ignore, ...]:
        """Findings to live with: tables with rule, reason and until, or "RULE=REASON;until=DATE"."""
        value = table.get("ignore", ())
        if not isinstance(value, (list, tuple)):
            self.wrong("ignore", value, 'a list of tables, {rule = "KD1001", reason = "…", until = "2027-01-31"}')
            return ()
        found = (item if isinstance(item, Ignore) else self._ignore(item) for item in value)
        return tuple(item for item in found if item is not None)

    def _ignore(self, item: Any) -> Ignore | None:
        if not isinstance(item, dict):
            self.wrong("ignore", item, 'a table, {rule = "KD1001", reason = "…", until = "2027-01-31"}')
            return None
        self.known(item, ("rule", "reason", "until"), "ignore")
        rule, reason = (self.text(item, key, "ignore.") for key in ("rule", "reason"))
        until = self._day(item.get("until"))
        if not rule or not reason:
            self.complain("ignore", f"an ignore entry needs a rule and a reason: {_kind(item)}")
            return None
        return Ignore(rule.strip(), reason, until)

    def publishers(self, table: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
        """Names of publishers, which are the first half of a repository's name; None where there are none."""
        names = self.texts(table, key)
        for name in names or ():
            if "/" in name:
                owner = name.partition("/")[0]
                self.complain(key, f"{key} takes publishers, not repositories: {owner!r} instead of {name!r}")
        return names

    def package(self, table: Mapping[str, Any], name: str, inside: str, special: Collection[str]) -> None:
        """Note a name that is nearly one of those that are no package."""
        near = difflib.get_close_matches(name.lower(), special, 1, _NEARLY) if name not in special else []
        if near:
            self.complain(name, f"{inside}{name}: the nearest that can be asked is {near[0]!r}")

    def _day(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return value.isoformat()
        try:
            return datetime.date.fromisoformat(value if isinstance(value, str) else "").isoformat()
        except ValueError:
            self.wrong("ignore.until", value, "a day, as in 2027-01-31")
            return ""

    def path(self, text: str, by_flag: bool) -> str:
        """A path of the configuration is meant from where that lies, one of a flag from here."""
        path = Path(text).expanduser()
        return str(path) if by_flag or not self.file else str(Path(self.file).parent / path)

    def existing(self, key: str, text: str, by_flag: bool) -> str:
        """The path of a file that must be there."""
        path = self.path(text, by_flag)
        if not os.path.lexists(path):
            self.complain(key, f"{key}: there is no file {path}: kerneldoctor recommend --write makes one")
        return path

    def _line_of(self, key: str) -> int:
        """The line on which a key, or a text, stands first; 0 where that is not found."""
        name = re.escape(key.rpartition(".")[2] if "/" not in key else key)
        for number, line in enumerate(self._lines, 1):
            if re.search(rf"(?<![\w-]){name}(?![\w-])", line.partition(" #")[0]):
                return number
        return 0


def _kind(value: Any) -> str:
    """What a value is, in words: "the text 'fast'"."""
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    names = {
        bool: "",
        str: "the text ",
        int: "the number ",
        float: "the number ",
        list: "the list ",
        dict: "the table ",
    }
    if isinstance(value, bool):
        shown = str(value).lower()
    return f"{names.get(type(value), '')}{shown}"
