"""Looks at a build before anything of it is imported: publisher, files, what it asks of this machine.

Parent side: reads files and facts, runs nothing. What it finds are refusals with a reason, never tracebacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..archs import supports_gpu
from ..engine import facts  # noqa: F401 - registers kernel.missing_python_depends
from ..engine.case import Case, Kernel, Row
from ..engine.conditions import in_range
from ..engine.facts.driver import gpu_capability, visible_nvidia_gpus
from ..environment import Fact, known, unknown
from ..errors import HubError
from ..hub.download import publisher_is_trusted
from ..hub.metadata import Metadata, MetadataError, read_metadata
from .digest import Damage, check_files, odd_files
from .trial import Refusal

# kernels 0.14.0, which asks nobody, has this list (load.py of https://pypi.org/project/kernels/0.14.0/).
_FIXED_PUBLISHERS = frozenset({"kernels-community", "kernels-staging", "kernels-test", "sglang"})
_SHOWN_FILES = 5
_ID = re.compile(r"[\w.+-]+")
#: What `kernels` loads from a folder, see resolve_local_kernel of kernels 0.17.2.
_LAYOUT = (
    "wanted are build/VARIANT/__init__.py and beside it metadata.json with name, id, version, license, python-depends "
    "and backend.type (an example is in the README)"
)
_FORMS = {
    "name": "lower-case letters, digits and hyphens, a letter first, as in my-kernel",
    "id": "a text", "license": "a text", "version": "a whole number from 0", "python-depends": "a list of texts",
    "backend": "an object with a type", "backend.archs": "a list of texts",
    "kernels-minver": "a version such as 0.15.0",
    "backend.type": "one of cann, cpu, cuda, metal, neuron, rocm, tpu, xpu",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found before the import."""

    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    metadata: Metadata | None  # None: could not be read


def check_publisher(
    repo: str, release: Row, trusted_by_name: Iterable[str], asks: bool, timeout: float
) -> tuple[Fact[bool], Refusal | None]:
    """Whether code of this publisher may be run, by the rule of the installed kernels release.

    `asks`: False when the Hub may not, or cannot, be asked. A release without any rule is held to that of the
    newest ones: this program runs nobody's code unasked.
    """
    if repo in trusted_by_name:
        return known(True, "--trust-remote-code"), None
    publisher = repo.split("/")[0]
    how = f"if you trust it, say so by name: --trust-remote-code {repo}"
    if release.get("trust") == "list" or not asks:
        if publisher in _FIXED_PUBLISHERS:
            return known(True, "publisher"), None
        if not asks:
            why = f"whether {publisher} is a trusted publisher cannot be asked without the Hub"
            return unknown(why), Refusal("untrusted", why, how)
        return known(False, "publisher"), Refusal("untrusted", f"{publisher} is no trusted publisher", how)
    try:
        trusted = publisher_is_trusted(repo, timeout)
    except HubError as error:
        return unknown(str(error)), Refusal("untrusted", str(error), how)
    if trusted:
        return known(True, "Hub"), None
    return known(False, "Hub"), Refusal("untrusted", f"the Hub does not mark {publisher} as a trusted publisher", how)


def check_build(folder: Path, release: Row, from_hub: bool = True) -> Checked:
    """The files of a build folder: readable metadata, and every file as it was built and sent.

    from_hub: False for a folder that somebody has made, which cannot be downloaded again.
    """
    try:
        metadata = read_metadata(folder)
    except MetadataError as error:
        again = "download it again; if it stays so, the build is broken: use another version"
        remedy = again if from_hub else _LAYOUT
        if not release.get("metadata_required", True):
            return Checked((), (f"{error}: this kernels release does not read it",), None)
        return Checked((Refusal("metadata", str(error), remedy, ("metadata.json",)),), (), None)
    refusals: list[Refusal] = []
    if metadata.lacks and release.get("metadata_required", True):
        why = _lacking(metadata, str(release["version"]))
        remedy = "use a version that was built since May 2026" if from_hub else _LAYOUT
        refusals.append(Refusal("metadata", why, remedy, ("metadata.json",)))
    damages = check_files(folder, metadata)
    if damages:
        refusals.append(_damaged(damages, folder, from_hub))
    odd = [f"{path} {what}" for path, what in odd_files(folder, _snapshot(folder) if from_hub else _repository(folder))]
    if odd and from_hub:
        why = "; ".join(odd[:_SHOWN_FILES])
        refusals.append(Refusal("files", why, f"delete the folder and fetch it again: {_snapshot(folder)}"))
    return Checked(tuple(refusals), (*_notes(metadata, from_hub), *(() if from_hub else odd[:_SHOWN_FILES])), metadata)


def _lacking(metadata: Metadata, release: str) -> str:
    """What metadata.json lacks, and what is there in a form that kernels does not take."""
    missing = [name for name in metadata.lacks if name not in metadata.malformed]
    parts = [f"lacks {', '.join(missing)}, which kernels {release} demands"] if missing else []
    parts += [
        f"has a {name} that kernels {release} does not take: it wants {_FORMS.get(name, 'another form')}"
        for name in metadata.malformed
    ]
    return f"metadata.json {'; '.join(parts)}"


def _notes(metadata: Metadata, from_hub: bool) -> Iterator[str]:
    if metadata.digest is None:
        compared = "files were compared with the cache" if from_hub else "nothing says how the files were when built"
        yield f"metadata.json holds no digest: {compared}"
    if metadata.id and not _ID.fullmatch(metadata.id):
        yield f"the id in metadata.json is no name: {metadata.id[:80]!r}"


def _repository(folder: Path) -> Path:
    """The repository of a build on disk: the folder above its `build`; else itself."""
    return folder.parent.parent if folder.parent.name == "build" else folder


def check_needs(
    kernel: Kernel, case: Case, release: Row, device: str, from_hub: bool
) -> tuple[list[Refusal], list[str]]:
    """What the build asks of this machine, as kernels does before it imports; and what is only worth saying."""
    refusals: list[Refusal] = []
    notes: list[str] = []
    if kernel.backend.value == "cuda" and device == "cpu":
        refusals.append(Refusal("wrong-device", "the build is for CUDA: on the CPU there is nothing to try"))
    if kernel.minver.is_known and in_range(str(release["version"]), f">={kernel.minver.value}") is False:
        text = f"it asks for kernels {kernel.minver.value} or newer; here is {release['version']}"
        if release.get("minver") == "error":
            refusals.append(Refusal("minver", text, f'pip install "kernels>={kernel.minver.value}"'))
        else:
            notes.append(text)
    lacking = Case(case.environment, case.tables, kernel).fact("kernel.missing_python_depends")
    if lacking.is_known:
        names = " ".join(lacking.value or ())
        refusals.append(Refusal("missing-dependency", f"it needs {names}, not installed", f"pip install {names}"))
    _check_archs(kernel, case, bool(release.get("arch_check")) and from_hub, refusals, notes)
    return refusals, notes


def _check_archs(kernel: Kernel, case: Case, enforced: bool, refusals: list[Refusal], notes: list[str]) -> None:
    if kernel.backend.value != "cuda" or not kernel.archs.is_known:
        return
    archs = kernel.archs.value or ()
    gpus = visible_nvidia_gpus(case).value or ()
    capabilities = {str(c.value): gpu.name.value for gpu in gpus if (c := gpu_capability(gpu, case)).is_known}
    # Which of several kinds of GPU is cuda:0 is torch's to say: there kernels itself decides.
    if not capabilities or any(supports_gpu(archs, capability) is not False for capability in capabilities):
        return
    seen = ", ".join(f"{name} ({capability})" for capability, name in capabilities.items())
    text = f"the build holds code for {', '.join(archs)}, and none for {seen}"
    if enforced:
        refusals.append(Refusal("wrong-architecture", text, "use a version or a kernel that has code for this GPU"))
    else:
        notes.append(f"{text}; a Triton part may run nevertheless")


def _damaged(damages: tuple[Damage, ...], folder: Path, from_hub: bool) -> Refusal:
    words = {
        "changed": "is not what was built", "missing": "is missing", "unknown": "is in no digest",
        "unreadable": "cannot be read",
    }  # fmt: skip
    shown = [f"{damage.path} {words[damage.kind]}" for damage in damages[:_SHOWN_FILES]]
    rest = f" and {len(damages) - _SHOWN_FILES} more" if len(damages) > _SHOWN_FILES else ""
    return Refusal(
        "digest",
        f"{'; '.join(shown)}{rest}",
        f"delete the folder and fetch it again: {_snapshot(folder)}"
        if from_hub
        else "write the digest anew after every change of a file, or leave `digest` out of metadata.json",
        tuple(damage.path for damage in damages),
    )


def _snapshot(folder: Path) -> Path:
    """The folder to delete: of the cache the whole repository, because its blobs are damaged and not its links."""
    for parent in folder.parents:
        if parent.name.startswith(("kernels--", "models--")):
            return parent
    return folder
