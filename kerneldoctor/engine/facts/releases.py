"""Looks releases up in the tables of transformers, kernels and huggingface_hub; derives no fact of its own.

A release that is not in a table is unknown, with the reason: a nightly, a release newer than the table, or one that
never was. Nothing is carried over from a neighbour.
"""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from ...environment import Fact, State, absent, known, unknown
from ..case import Case, Row
from ..conditions import in_range, parse_specifier, parse_version

_DISTRIBUTIONS = {"transformers": "transformers", "kernels": "kernels", "huggingface_hub": "huggingface-hub"}


def installed(case: Case, project: str) -> Fact[Any]:
    """The installed version of a project of the tables."""
    return case.fact(f"packages.{_DISTRIBUTIONS[project]}.version")


def row_of(case: Case, project: str) -> Fact[Any]:
    """The table row of the installed release; absent where it is not installed, unknown where there is no row."""
    version = installed(case, project)
    if version.state is not State.KNOWN:
        return _carried(version, f"{project} is not installed")
    parsed = parse_version(str(version.value))
    if parsed is None:
        return unknown(f"{version.value!r} is no version of {project}")
    wanted = Version(parsed.public)
    row = next((row for row in case.table(project) if parse_version(row["version"]) == wanted), None)
    if row is not None:
        return known(row, row["source"])
    return unknown(_why_no_row(case, project, parsed))


def column(case: Case, project: str, name: str) -> Fact[Any]:
    """One column of the installed release's row; absent where the project is not installed or the column is empty."""
    row = row_of(case, project)
    if row.value is None:
        return row
    if name not in row.value:
        return absent(f"{project} {row.value['version']}: {row.note}")
    return known(row.value[name], row.note)


def rows_newest_first(case: Case, project: str) -> tuple[tuple[Version, Row], ...]:
    """Every release of a table with its version, newest first."""
    pairs = ((parse_version(row["version"]), row) for row in case.table(project))
    return tuple(sorted(((v, row) for v, row in pairs if v is not None), key=lambda pair: pair[0], reverse=True))


def listed_on(case: Case, project: str) -> str:
    """The day on which the index was read for a table."""
    return str(next((row["listed"] for row in case.table("listings") if row["project"] == project), "an unknown day"))


def accepts(gate: str, version: str) -> bool | None:
    """Whether a run-time gate lets a version through; None where it is no version.

    transformers compares versions directly (`>=` and `<` of packaging.version), so that 0.19.0.dev0 is below 0.19.0;
    a PEP 440 specifier would leave it out.
    """
    parsed, parts = parse_version(version), parse_specifier(gate)
    if parsed is None or parts is None:
        return None
    return all(
        parsed >= Version(part.version) if part.operator == ">=" else parsed < Version(part.version) for part in parts
    )


def fits_python(case: Case, row: Row) -> bool:
    """Whether a release may be installed under the Python looked at; true where that is not known."""
    python = case.fact("python.version")
    return not python.is_known or in_range(python.value, row["python"]) is not False


def common_hub(case: Case, transformers: Row, kernels: Row) -> str | None:
    """A huggingface_hub release that both accept: the installed one, else the newest of the table; None for none."""
    wanted = (transformers["huggingface_hub"], kernels["huggingface_hub"])
    here = installed(case, "huggingface_hub")
    offered = [str(here.value)] if here.is_known else []
    offered += [row["version"] for _, row in rows_newest_first(case, "huggingface_hub") if fits_python(case, row)]
    return next((hub for hub in offered if all(in_range(hub, specifier) for specifier in wanted)), None)


def import_obstacle(transformers: Row, kernels: Row) -> str:
    """Why importing a model class of a transformers release fails with a kernels release; "" where it does not."""
    demands = transformers["import_demands"]
    if "no_version" in demands and kernels["layer_version_required"]:
        return "it names layers without a version, and kernels since 0.15.1 demands one"
    if "version" in demands and not kernels["layer_version"]:
        return "it passes a version for layers, which kernels before 0.8.1 does not take"
    if "rocm" in demands and kernels["refuses_rocm_layers"]:
        return "it names layers for ROCm, which this kernels release calls an unknown device"
    return ""


def agreement(case: Case, transformers: Row, kernels: Row) -> str | None:
    """A huggingface_hub release with which a transformers and a kernels release work together; None where they do not.

    Where transformers sets no upper bound at run time, a kernels release must also be one that its pip extra asks
    for, or one that reads kernel repositories: the older ones ask for model repositories, which were retired.
    """
    gate, version = transformers["kernels"], kernels["version"]
    meant = "<" in gate or kernels["repo_type"] == "kernel"
    if not (meant or in_range(version, transformers.get("kernels_extra_range", ""))):
        return None
    if not accepts(gate, version) or import_obstacle(transformers, kernels):
        return None
    if not (fits_python(case, transformers) and fits_python(case, kernels)):
        return None
    return common_hub(case, transformers, kernels)


def _carried(fact: Fact[Any], note: str) -> Fact[Any]:
    return absent(note) if fact.is_absent else fact


def _why_no_row(case: Case, project: str, version: Version) -> str:
    releases = rows_newest_first(case, project)
    if not releases:
        return f"no table of {project} releases is loaded"
    newest, oldest = releases[0][0], releases[-1][0]
    if version.is_prerelease:
        return f"{project} {version} is no final release: what it accepts is not known"
    if version > newest:
        listed = listed_on(case, project)
        return f"{project} {version} is newer than the newest release known here ({newest}, listed {listed})"
    return f"{project} {version} is not among the releases known here ({oldest} to {newest})"
