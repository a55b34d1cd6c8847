"""What `diff` does, for Python programs: judge two saved machines by the same rules, and lay them side by side.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from . import api
from .diff.facts import differences, read_paths
from .diff.model import Answered, Diff, deciding, pairs, split
from .errors import UsageError
from .report.model import Report


def diff(a: str, b: str, *, kernels: Sequence[str] = (), rules: Sequence[str | Path] = ()) -> Diff:
    """What differs between two saved reports or environments, and what of it matters.

    Both are judged anew by the rules at hand: whatever release of kerneldoctor saved them. kernels: also compare what
    would load of these. rules: folders of more rules. Raises UsageError for files that cannot be read.
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
        kernels=tuple(_kernels(kernels, left, right)),
    )


def _kernels(names: Sequence[str], left: Report, right: Report) -> Iterator[Answered]:
    """What would load on each side, where that is not the same."""
    from .api_hub import Unanswered, kernels_of_scan
    from .report.variants import headline

    wanted = tuple(dict.fromkeys((*names, *(n for r in (left, right) for n in api.usual_kernels(r.environment)))))
    if not wanted:
        return
    sides = []
    for report in (left, right):
        answers = kernels_of_scan(wanted, report.environment)
        sides.append([a.why if isinstance(a, Unanswered) else headline(a) for a in answers])
    for name, one, other in zip(wanted, *sides, strict=True):
        if one != other:
            yield Answered(name, one, other)
