"""What `diff` does, for Python programs: judge two saved machines by the same rules, and lay them side by side.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from . import api
from .diff.facts import differences, read_paths
from .diff.model import Answered, Diff, deciding, pairs, split
from .environment import Environment
from .errors import UndeterminedError, UsageError

SECONDS = 10.0  # for asking the Hub about a kernel


def diff(
    a: str, b: str, *, kernels: Sequence[str] = (), rules: Sequence[str | Path] = (), offline: bool = False
) -> Diff:
    """What differs between two saved reports or environments, and what of it matters.

    Both are judged anew by the rules at hand: whatever release of kerneldoctor saved them. kernels: also compare what
    would load of these; the Hub is asked unless `offline`. rules: folders of more rules. Raises UsageError for files
    that cannot be read, and for a kernel or revision that the Hub says is not there.
    """
    from .engine.loading import all_rules, shipped_tables

    if a == b == "-":
        raise UsageError("standard input holds one machine: name a file for the other one")
    left, right = (api.scan(env=path, rules=rules) for path in (a, b))
    only_a, only_b = split(left, right)
    both = pairs(left, right)
    surer = tuple((one, other) for one, other in both if one.certainty != other.certainty)
    read = read_paths(all_rules(tuple(map(Path, rules))), (left.environment, right.environment), shipped_tables())
    decide = deciding((*only_a, *only_b, *(finding for pair in surer for finding in pair)))
    return Diff(
        names=(a, b),
        reports=(left, right),
        only_a=only_a,
        only_b=only_b,
        surer=surer,
        common=tuple(one for one, other in both if one.certainty == other.certainty),
        facts=differences(left.environment, right.environment, decide, read),
        kernels=tuple(_kernels(tuple(dict.fromkeys(kernels)), left.environment, right.environment, offline)),
    )


def _kernels(names: Sequence[str], a: Environment, b: Environment, offline: bool) -> Iterator[Answered]:
    """What would load on each side: of the kernels that were named in any case, of others where it differs."""
    for name in names:
        yield Answered(name, _line(name, a, offline), _line(name, b, offline))
    usual = dict.fromkeys((*api.usual_kernels(a), *api.usual_kernels(b)))
    for name in usual:
        if name not in names and (lines := (_line(name, a, True), _line(name, b, True)))[0] != lines[1]:
            yield Answered(name, *lines)


def _line(name: str, environment: Environment, offline: bool) -> str:
    """What a kernel comes to in one environment, or why that cannot be told."""
    from .api_hub import Asking, variants
    from .hub.live import RepositoryMissingError, RevisionMissingError
    from .hub.reference import Kind, parse_reference
    from .report.loading import verdict_line

    if parse_reference(name).kind is Kind.BUILTIN:
        return "comes with transformers and torch"
    try:
        return verdict_line(
            variants(name, environment=environment, asking=Asking("index" if offline else "auto", SECONDS))
        )
    except (RepositoryMissingError, RevisionMissingError):
        raise
    except (UndeterminedError, UsageError) as error:
        return f"cannot be told: {error}"
