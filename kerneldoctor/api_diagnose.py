"""What `diagnose` does, for Python programs. No parsing of arguments and no printing here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from .diagnosis.answer import Diagnosis, diagnose_text, knowledge
from .diagnosis.batch import Outcome, Render, diagnose_file, diagnose_files, reports_in


def diagnose(
    text: str | bytes | None = None, *, path: str | Path | None = None, rules: Sequence[str | Path] = ()
) -> Diagnosis:
    """Name the fault in a pasted report: a text, or a file (`path`; "-" for standard input).

    rules: folders of more rules. Nothing of it is redacted. Raises UsageError (and its kind RuleError) for what cannot
    be done as asked; a text never raises, whatever it holds.
    """
    from .errors import UsageError

    folders = tuple(map(str, rules))
    if (text is None) is (path is None):
        raise UsageError("diagnose takes a text or a path")
    if path is not None:
        return diagnose_file(str(path), folders)
    return diagnose_text(text or "", "", knowledge(folders))


def diagnose_many(
    paths: Sequence[str | Path], *, rules: Sequence[str | Path] = (), jobs: int = 0, render: Render | None = None
) -> Iterator[Outcome]:
    """Diagnose files, and all files below folders, on several processes (`jobs`; one a core by default), in order.

    render: what is made of each Diagnosis in its process; a function of a module. A file that cannot be read is an
    Outcome with an error. Raises UsageError where there is no file at all, and RuleError for rules.
    """
    from .errors import UsageError

    files = [file for path in map(str, paths) for file in (reports_in(path) if Path(path).is_dir() else [path])]
    if not files:
        raise UsageError(f"no report in {', '.join(map(str, paths)) or 'what was named'}: there is no file")
    yield from diagnose_files(files, jobs=jobs, folders=tuple(map(str, rules)), render=render)
