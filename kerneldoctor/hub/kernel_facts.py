"""The facts about one listed build, as rules read them; judges nothing.

They come from the name of the build, from its listing, from its metadata.json where that was read, and else from the
table hub_kernels (what the sources of a kernel say of its dependencies and GPU code). What none of these says is
unknown, with the reason.
"""

from __future__ import annotations

from typing import Any

from ..engine.case import Kernel, Row, Tables
from ..environment import Fact, absent, known, unknown
from .default_archs import default_archs
from .listing import TRUSTED, Build, Listing, Version
from .metadata import CONTENT, METADATA, Metadata
from .variant import Framework, Variant

_FRAMEWORKS = {
    Framework.TORCH: "torch",
    Framework.TORCH_STABLE_ABI: "torch-stable-abi",
    Framework.TVM_FFI: "tvm-ffi",
    Framework.NOARCH: "torch-noarch",
}
_WITH_GPU_CODE = ("cuda", "rocm")


def kernel_row(repo: str, version: int | None, tables: Tables) -> Row | None:
    """What hub_kernels has on a version of a kernel, or None."""
    rows = tables.get("hub_kernels", ())
    return next((row for row in rows if row["repo"] == repo and row["version"] == version), None)


def kernel_facts(listing: Listing, version: Version, build: Build, variant: Variant, row: Row | None) -> Kernel:
    """The build as the subject of a question to the rules."""
    listed = f"{listing.source} listing of {version.as_of}" if version.as_of else f"{listing.source} listing"
    of_build = _OfBuild(listing, version, build, variant, row)
    cuda = variant.backend_version if variant.backend == "cuda" else None
    return Kernel(
        repo=known(listing.repo, listed),
        version=_number(version, build, listed),
        revision=known(version.name, listed),
        commit=_commit(version, listed),
        variant=known(build.name, listed),
        framework=known(_FRAMEWORKS[variant.framework], "name of the build"),
        backend=known(variant.backend, "name of the build"),
        cuda=known(f"{cuda[0]}.{cuda[1]}", "name of the build") if cuda else absent("the name says no CUDA release"),
        build_id=known(build.build_id, build.build_id_note) if build.build_id else unknown("no listing of its files"),
        archs=of_build.archs(),
        python_depends=of_build.depends(),
        minver=of_build.minver(),
        trusted_publisher=_trusted(listing),
    )


class _OfBuild:
    """The facts that rest on what the build says of itself, or else on the table hub_kernels."""

    def __init__(self, listing: Listing, version: Version, build: Build, variant: Variant, row: Row | None) -> None:
        self._variant, self._row = variant, row
        said: Metadata | None = build.metadata.value
        self._said = said if said is not None and CONTENT not in said.lacks else None
        self._unknown = unknown(build.metadata.note)
        self._unread, self._no_file = build.metadata.note, build.metadata.is_absent
        self._source = f"derived from the sources of {listing.repo} {version.name}"

    def archs(self) -> Fact[Any]:
        """Architectures of a compiled build; absent where there is no GPU code to have any."""
        if self._said is not None and self._said.archs:
            return known(self._said.archs, METADATA)
        if self._variant.is_noarch or self._variant.backend not in _WITH_GPU_CODE:
            return absent("a build without compiled GPU code")
        if self._row is None and self._said is not None:
            return unknown(f"its {METADATA} names no GPU architectures")
        if self._row is None:
            return self._unknown
        lists = self._row.get("archs", {})
        tag = self._variant.backend_tag if self._variant.backend == "cuda" else self._variant.backend
        if tag in lists:
            return known(tuple(lists[tag]), self._source)
        by_default = default_archs(self._variant.backend_version or (0, 0)) if self._row.get("builder_default") else ()
        if len(by_default) == 1 and self._variant.backend == "cuda":
            return known(by_default[0].archs, f"derived from the builder's default list: {by_default[0].source}")
        return unknown(f"the architectures of builds for {tag} are not known")

    def depends(self) -> Fact[Any]:
        """Python distributions that the build cannot be loaded without."""
        if self._said is not None and "python-depends" not in self._said.lacks:
            return known(self._said.python_depends, METADATA) if self._said.python_depends else absent(METADATA)
        if self._no_file:
            return absent(f"it has no {METADATA} to name any")
        if self._row is None:
            return self._unknown
        by_backend = self._row.get("depends_by_backend", {})
        names = (*self._row.get("depends", ()), *by_backend.get(self._variant.backend, ()))
        return known(names, self._source) if names else absent(self._source)

    def minver(self) -> Fact[Any]:
        """The oldest kernels release that the build asks for; absent where it asks for none."""
        if self._said is None:
            return absent(self._unread) if self._no_file else unknown(self._unread)
        return known(self._said.minver, METADATA) if self._said.minver else absent(METADATA)


def _number(version: Version, build: Build, listed: str) -> Fact[Any]:
    """The version number: that of a branch, else the one in the metadata of a build of a commit, tag or main."""
    if version.number is not None:
        return known(version.number, listed)
    said: Metadata | None = build.metadata.value
    if said is not None and said.version is not None:
        return known(said.version, METADATA)
    return unknown(f"{version.name} is no numbered version")


def _commit(version: Version, listed: str) -> Fact[Any]:
    if len(version.commit) == 40:
        return known(version.commit, listed)
    return unknown(f"only {version.commit} was seen of it" if version.commit else "the listing names no commit")


def _trusted(listing: Listing) -> Fact[bool]:
    return known(True, "publisher") if listing.repo.startswith(f"{TRUSTED}/") else listing.trusted
