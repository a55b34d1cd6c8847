"""Writes the release tables beside it from the published packages, for maintainers: it needs pip and an index.

    python rules/tables/regenerate.py transformers 5.25.0 5.25.1
    python rules/tables/regenerate.py kernels --missing
    python rules/tables/regenerate.py huggingface_hub --all --check
    python rules/tables/regenerate.py kernels ~/Downloads/kernels-0.4.5.tar.gz

Wheels are fetched one after the other into a temporary folder (or `--cache DIR`, which is kept), read, and never
installed or imported. A row is replaced as a whole; rows of other releases stay. Each run notes in listings.toml what
the index offered, because "there is no newer release" is only ever true of a day.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parent))
from archives import Unreadable, Wheel
from reading import READERS

TABLES = Path(__file__).parent
SINCE = {"transformers": Version("4.55"), "kernels": Version("0.4"), "huggingface_hub": Version("0.34")}
Row = dict[str, Any]


def main(arguments: list[str] | None = None) -> int:
    """Run the script. Returns 1 where a release could not be read, or differs from its row with --check."""
    options = _options(arguments)
    listed = published(options.project)
    rows = {row["version"]: row for row in read_table(options.project)}
    wanted = _wanted(options, listed, rows)
    problems = 0
    for release in wanted:
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = read_release(options.project, release, Path(options.cache or folder))
            except (Unreadable, subprocess.CalledProcessError) as error:
                _say(f"{options.project} {release}: {error}")
                problems += 1
                continue
        if options.check and row != rows.get(row["version"]):
            _say(f"{options.project} {release}: the table says {rows.get(row['version'])}, the release {row}")
            problems += 1
        rows[row["version"]] = row
        _say(f"{options.project} {row['version']}: read")
    if not options.check:
        write_table(options.project, rows.values())
        _note_listing(options.project, listed, options.date)
    return 1 if problems else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Rewrite rows of a release table from the published packages.")
    parser.add_argument("project", choices=sorted(READERS))
    parser.add_argument("releases", nargs="*", help="versions, or paths of wheels and sdists")
    parser.add_argument("--missing", action="store_true", help="every final release that the table lacks")
    parser.add_argument("--all", action="store_true", help="every final release since the table's first")
    parser.add_argument("--check", action="store_true", help="compare with the table instead of writing it")
    parser.add_argument("--cache", help="keep downloaded wheels in this folder")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="the day of the listing")
    return parser.parse_args(arguments)


def _wanted(options: argparse.Namespace, listed: list[str], rows: Mapping[str, Row]) -> list[str]:
    known = [v for v in listed if Version(v) >= SINCE[options.project]]
    extra = known if options.all else [v for v in known if v not in rows] if options.missing else []
    return list(dict.fromkeys([*options.releases, *extra]))


def published(project: str) -> list[str]:
    """The final releases that the index lists today, newest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--json", "--ignore-requires-python", project]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [version for version in json.loads(answer)["versions"] if not Version(version).is_prerelease]


def read_release(project: str, release: str, folder: Path) -> Row:
    """The row of one release: a version, or the path of an archive."""
    path = Path(release) if release.endswith((".whl", ".tar.gz")) else _fetch(project, release, folder)
    return READERS[project](Wheel(path))


def _fetch(project: str, version: str, folder: Path) -> Path:
    pattern = f"{project}-{version}-*.whl"
    if not (have := sorted(folder.glob(pattern))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += ["--ignore-requires-python", "--dest", str(folder), f"{project}=={version}"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        have = sorted(folder.glob(pattern))
    if not have:
        raise Unreadable(f"pip left no {pattern}")
    return have[0]


def read_table(name: str) -> list[Row]:
    """The rows of a table; empty where there is none yet."""
    path = TABLES / f"{name}.toml"
    rows: list[Row] = tomllib.loads(path.read_text("utf-8")).get("row", []) if path.exists() else []
    return rows


def write_table(name: str, rows: Iterable[Row]) -> None:
    """Write a table, oldest release first."""
    ordered = sorted(rows, key=lambda row: Version(row["version"]))
    blocks = ["[[row]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in row.items()) for row in ordered]
    head = f"# Written by regenerate.py; run it again rather than editing by hand.\n# {_HEADS[name]}\n\n"
    (TABLES / f"{name}.toml").write_text(head + "\n".join(blocks), "utf-8")


_HEADS = {
    "transformers": "`kernels`: the range accepted at run time. `import_demands`: what importing it asks of kernels.",
    "kernels": "What each kernels release can and cannot do. `versions`: what get_kernel(version=) takes.",
    "huggingface_hub": "Kernel repositories as a repository type; partial snapshots refused offline.",
    "listings": "What the package index offered, and when: newer releases may exist since.",
}


def _note_listing(project: str, listed: list[str], date: str) -> None:
    rows = {row["project"]: row for row in read_table("listings")}
    source = f"https://pypi.org/project/{project.replace('_', '-')}/#history"
    rows[project] = {
        "project": project,
        "version": listed[0],
        "listed": datetime.date.fromisoformat(date),
        "source": source,
    }
    write_table("listings", rows.values())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return value.isoformat() if isinstance(value, datetime.date) else json.dumps(value)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
