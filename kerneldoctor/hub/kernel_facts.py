"""The facts about one listed build, as rules read them; judges nothing.

They come from the name of the build, from its listing, and from the table hub_kernels (what the sources of a kernel
say of its dependencies and GPU code). What none of these says is unknown, with the reason.
"""

from __future__ import annotations

from typing import Any

from ..engine.case import Kernel, Row, Tables
from ..environment import Fact, absent, known, unknown
from .default_archs import default_archs
from .listing import Build, Listing, Version
from .variant import Framework, Variant

_FRAMEWORKS = {
    Framework.TORCH: "torch",
    Framework.TORCH_STABLE_ABI: "torch-stable-abi",
    Framework.TVM_FFI: "tvm-ffi",
    Framework.NOARCH: "torch-noarch",
}
TRUSTED = "kernels-community"  # the Hub marks more publishers; of this one kernels itself says so
_WITH_GPU_CODE = ("cuda", "rocm")


def kernel_row(repo: str, version: int | None, tables: Tables) -> Row | None:
    """What hub_kernels has on a version of a kernel, or None."""
    rows = tables.get("hub_kernels", ())
    return next((row for row in rows if row["repo"] == repo and row["version"] == version), None)


def kernel_facts(listing: Listing, version: Version, build: Build, variant: Variant, row: Row | None) -> Kernel:
    """The build as the subject of a question to the rules."""
    listed = f"{listing.source} listing of {version.as_of}" if version.as_of else f"{listing.source} listing"
    of_build = _OfBuild(listing, version, variant, row)
    cuda = variant.backend_version if variant.backend == "cuda" else None
    return Kernel(
        repo=known(listing.repo, listed),
        version=unknown(f"{version.name} is no numbered version")
        if version.number is None
        else known(version.number, listed),
        revision=known(version.name, listed),
        commit=_commit(version, listed),
        variant=known(build.name, listed),
        framework=known(_FRAMEWORKS[variant.framework], "name of the build"),
        backend=known(variant.backend, "name of the build"),
        cuda=known(f"{cuda[0]}.{cuda[1]}", "name of the build") if cuda else absent("the name says no CUDA release"),
        build_id=known(build.build_id, build.build_id_note) if build.build_id else unknown("no listing of its files"),
        archs=of_build.archs(),
        python_depends=of_build.depends(),
        minver=unknown("metadata.json was not read"),
        trusted_publisher=_trusted(listing.repo),
    )


class _OfBuild:
    """The facts that rest on the table hub_kernels."""

    def __init__(self, listing: Listing, version: Version, variant: Variant, row: Row | None) -> None:
        self._variant, self._row = variant, row
        self._unknown = unknown(f"nothing is known here of the sources of {listing.repo} {version.name}")
        self._source = f"derived from the sources of {listing.repo} {version.name}"

    def archs(self) -> Fact[Any]:
        """Architectures of a compiled build; absent where there is no GPU code to have any."""
        if self._variant.is_noarch or self._variant.backend not in _WITH_GPU_CODE:
            return absent("a build without compiled GPU code")
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
        if self._row is None:
            return self._unknown
        by_backend = self._row.get("depends_by_backend", {})
        names = (*self._row.get("depends", ()), *by_backend.get(self._variant.backend, ()))
        return known(names, self._source) if names else absent(self._source)


def _commit(version: Version, listed: str) -> Fact[Any]:
    if len(version.commit) == 40:
        return known(version.commit, listed)
    return unknown(f"only {version.commit} was seen of it" if version.commit else "the listing names no commit")


def _trusted(repo: str) -> Fact[Any]:
    if repo.startswith(f"{TRUSTED}/"):
        return known(True, "publisher")
    return unknown("whether the Hub marks this publisher as trusted was not asked")
