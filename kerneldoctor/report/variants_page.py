"""The builds of a kernel on one machine as a page: the answer, the pin, the other versions, every build, the source.

Lays out and decides nothing. Names, pins and commands stay in one piece.
"""

from __future__ import annotations

from ..hub.answer import Answer
from ..hub.candidates import Candidate, VersionCandidates
from ..hub.listing import Version
from ..hub.reference import Kind
from .folding import by_kind, fold_names, state, why_all
from .layout import Page
from .loading import hindrance_text, typed, verdict_line
from .naming import conclusion
from .platforms import platform_of
from .reasons import more, why
from .text import listing, plural
from .variants import machine_text, option_text, short, source_text, version_sentence

_WORKLOAD_OPTIONS = {
    "workload.backward": "--training or --inference",
    "workload.q_heads": "--heads",
    "workload.kv_heads": "--kv-heads",
    "workload.head_dim": "--head-dim",
    "workload.dtype": "--dtype",
}
_MOST_VERSIONS = 4  # whose builds are shown without --all
_MOST_NAMES = 12  # of versions of which there is nothing to say
_MOST_KINDS = 8  # lines of builds of one version
_STYLE = {True: "bold green", False: "bold red", None: "bold yellow"}


def render(answer: Answer, page: Page, show_all: bool = False) -> str:
    """The whole page."""
    _answer(answer, page)
    _other_versions(answer, page, show_all)
    _pin(answer, page)
    if answer.options is not None:
        _options(answer, page)
    (_all_builds if show_all else _folded_builds)(answer, page)
    _source(answer, page)
    return page.text()


def render_brief(answer: Answer, page: Page) -> None:
    """The answer and the pin alone, for a report that is about more than this kernel."""
    page.line()
    name = str(answer.meaning.reference)
    if answer.meaning.source in ("package", "unknown") and answer.meaning.reference.kind is Kind.FLASH_ATTENTION:
        page.line(conclusion(answer.meaning), "bold")
        page.paragraph("  that is ", verdict_line(answer))
    else:
        page.paragraph("", verdict_line(answer), _STYLE[answer.usable])
    asked = answer.version
    if answer.pin is not None and answer.names_version and not (asked is not None and asked.usable):
        page.paragraph("  instead ", f"{answer.pin.version} has {answer.pin.build}")
    works, _ = typed(answer)
    if works:
        page.whole(f"  pin     {works[0]}")
    page.paragraph("  listing ", f"{source_text(answer)}; kerneldoctor variants {name} asks the Hub")


def _answer(answer: Answer, page: Page) -> None:
    page.paragraph("", verdict_line(answer), _STYLE[answer.usable])
    page.paragraph("  here    ", machine_text(answer))
    if answer.meaning.source in ("package", "unknown"):
        usual = "; judged is the kernel that it usually means" if answer.meaning.source == "unknown" else ""
        page.paragraph("  name    ", f"{conclusion(answer.meaning)}{usual}")
    release = answer.candidates.rules.release
    if answer.candidates.kernels_installed is False:
        install = f'pip install "kernels=={release}"'
        page.paragraph("  kernels ", f"not installed: judged as {release} ({install})")
    elif answer.candidates.rules.extrapolated:
        page.paragraph(
            "  kernels ", f"{release} is newer than any release known here: judged by the newest known rules"
        )
    version = answer.version
    chosen = version.preferred if version is not None else None
    for text in more(chosen) if chosen is not None else ():
        page.paragraph("  also    ", text)
    if answer.environment.torch.version.is_absent:
        page.paragraph("  hint    ", "--python PATH looks at the environment that has torch; --torch 2.13 asks what if")
    if options := _deciding(answer):
        page.paragraph("  decide  ", f"say what it is for: {listing(options)}")
    for note in (*answer.meaning.reference.notes, *answer.notes):
        page.paragraph("  note    ", note)


def _deciding(answer: Answer) -> list[str]:
    """The options that would settle the errors which hang on the workload."""
    versions = answer.candidates.versions if answer.version is None else (answer.version,)
    chosen = [version.preferred for version in versions if version.preferred is not None]
    issues = [issue for candidate in chosen for issue in candidate.issues if issue.severity == "error"]
    missing = {path for issue in issues for path in issue.missing}
    return [option for path, option in _WORKLOAD_OPTIONS.items() if path in missing]


def _other_versions(answer: Answer, page: Page, show_all: bool) -> None:
    others = [v for v in answer.candidates.versions if v is not answer.version]
    commits = [] if show_all else [v for v in others if is_commit(v.version)]
    unseen = [v for v in others if not v.candidates and not v.version.complete and v not in commits]
    if others:
        page.line()
    for version in others:
        if version not in unseen and version not in commits:
            name = short(version.version.name)
            text = hindrance_text(answer, version) or version_sentence(version, answer.environment)
            page.paragraph(f"  {name:<7} ", text)
    for note, versions in _by_note(unseen).items():
        names = [short(version.version.name) for version in versions]
        more_of_them = f" and {plural(len(names) - _MOST_NAMES, 'other')}" if len(names) > _MOST_NAMES else ""
        text = f"{listing(names[:_MOST_NAMES])}{more_of_them}"
        page.paragraph(f"  {text:<7} ", f"cannot be judged: {note or 'no build was seen'}")
    if commits:
        page.paragraph("  ", f"{plural(len(commits), 'commit')} without a branch (--all)")


def _by_note(versions: list[VersionCandidates]) -> dict[str, list[VersionCandidates]]:
    """The versions of which no build was seen, by why: only what was asked of the Hub has a reason of its own."""
    found: dict[str, list[VersionCandidates]] = {}
    for version in versions:
        found.setdefault(version.version.note if version.version.how == "live" else "", []).append(version)
    return found


def _pin(answer: Answer, page: Page) -> None:
    page.line()
    if answer.pin is None:
        page.line("No pin: no build is known to be usable here")
        return
    held = "" if answer.pin.is_commit else "; a branch can move, no commit of it is known here"
    version = answer.candidates.version(answer.pin.revision)
    chosen = version.preferred if version is not None else None
    faults = [issue.rule for issue in chosen.issues if issue.severity == "error"] if chosen is not None else []
    known = f", with known faults for some uses ({', '.join(faults)})" if faults else ""
    page.paragraph("Pin ", f"{answer.pin.version}, untested{known}: {answer.pin.build}{held}", "bold")
    works, others = typed(answer)
    for text in works:
        page.whole(f"    {text}")
    for line in others:
        page.paragraph("  not here, because ", f"{line.why}:")
        page.whole(f"    {line.text}")
        if line.mend:
            page.line("  which would mend it:")
            page.whole(f"    {line.mend}")


def _options(answer: Answer, page: Page) -> None:
    page.line()
    options = answer.options or ()
    page.line("What would help, the smallest change first" if options else "No change is known that would help", "bold")
    for number, option in enumerate(options, 1):
        doubt = "" if option.usable else f" (not determined: {', '.join(option.missing)})"
        page.paragraph(f"  {number}. ", f"{option_text(option)}{doubt}")
        for command in option.commands:
            page.whole(f"     {command}")
        if option.issues:
            faults = "known faults" if option.flawed else "known limits"
            page.paragraph("     ", f"{faults} that depend on the workload: {', '.join(option.issues)}")
        if option.rebuild:
            page.paragraph("     ", f"to be installed again for that torch: {', '.join(option.rebuild)}")


def _all_builds(answer: Answer, page: Page) -> None:
    """Every build of every version."""
    for version in answer.candidates.versions:
        _version_line(version, page)
        for candidate in version.candidates:
            _build(candidate, page, why(candidate))
        if not version.candidates:
            page.paragraph("  ", version.version.note or "no build was seen")


def _folded_builds(answer: Answer, page: Page) -> None:
    """The builds of the versions that matter most, those that share a fate on one line."""
    asked = answer.version
    versions = [v for v in answer.candidates.versions if v.candidates and (v is asked or not is_commit(v.version))]
    platform = platform_of(answer.environment)
    ours = [v for v in versions if v is asked or not all(map(platform.is_foreign, v.candidates))]
    telling = [v for v in ours if v is asked or any(c.accepted is not False for c in v.candidates)] or ours
    shown = sorted(telling, key=lambda version: version is not asked)[:_MOST_VERSIONS]
    for version in versions:
        if version in shown:
            _version_line(version, page)
            _folded(version, answer, page)
    if asked is not None and asked not in versions and asked.version.note:
        _version_line(asked, page)
        page.paragraph("  ", asked.version.note)
    hidden = [short(version.version.name) for version in versions if version not in shown]
    if hidden:
        page.paragraph("", f"{listing(hidden)}: --all lists the builds")


def _folded(version: VersionCandidates, answer: Answer, page: Page) -> None:
    platform = platform_of(answer.environment)
    here = [c for c in version.candidates if not platform.is_foreign(c)]
    said = ""
    for candidate in here:
        if candidate.preferred:  # what there is to say of it stands in the line of its version
            _build(candidate, page, "")
            said = why(candidate)
    kinds = by_kind(c for c in here if not c.preferred)
    for kind in kinds[:_MOST_KINDS]:
        names = fold_names((candidate.build.name for candidate in kind), platform.tag)
        text = why_all(kind)
        page.paragraph(f"  {state(kind[0]):<6}", f"{names}: {text}" if text and text not in said else names)
    rest = sum(len(kind) for kind in kinds[_MOST_KINDS:])
    if rest:
        page.paragraph("  ", f"{plural(rest, 'more build')} (--all)")
    hidden = len(version.candidates) - len(here)
    if hidden:
        page.paragraph("  ", f"{plural(hidden, 'build')} for other platforms (--all)")


def _version_line(version: VersionCandidates, page: Page) -> None:
    listed = version.version
    page.line()
    parts = [short(listed.name), short(listed.commit) if listed.commit != listed.name else "", _how(version)]
    page.line("  ".join(part for part in parts if part), "bold")


def is_commit(version: Version) -> bool:
    """Whether a version is a bare commit, which no branch is known to name."""
    return not version.number and version.commit.startswith(version.name)


def _how(version: VersionCandidates) -> str:
    listed = version.version
    whole = "" if listed.complete or listed.how == "cache" else ", not all of its builds"
    text = {"live": "live", "cache": "in the cache", "observed": "seen", "derived": "derived", "partial": "seen"}
    parts = [
        f"{text[listed.how]} {listed.as_of or 'at an unknown date'}{whole}" if listed.how != "cache" else text["cache"]
    ]
    if version.cached and listed.how != "cache":
        parts.append("on disk")
    if version.cached:
        offline = {True: "would load offline", False: "would not load offline", None: "offline: not known"}
        parts.append(offline[version.loads_offline])
    return ", ".join(parts)


def _build(candidate: Candidate, page: Page, text: str) -> None:
    identity = f"  [{candidate.build.build_id}]" if candidate.build.build_id else ""
    label = f"  {state(candidate):<6}{candidate.build.name}{identity}"
    if len(label) + 2 + len(text) <= page.width or not text:
        page.whole(f"{label}  {text}".rstrip(), _STYLE[candidate.usable] if candidate.preferred else "")
        return
    page.whole(label, _STYLE[candidate.usable] if candidate.preferred else "")
    page.paragraph("          ", text)


def _source(answer: Answer, page: Page) -> None:
    page.line()
    page.paragraph("Listing: ", source_text(answer))
