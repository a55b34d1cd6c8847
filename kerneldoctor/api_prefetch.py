"""What `prefetch` does, for Python programs: choose the builds, bring them, look whether they would load offline.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import datetime
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from . import __version__, api_hub
from .environment import Environment, known
from .errors import UndeterminedError, UsageError
from .prefetch.model import Cargo, Item, Patience

if TYPE_CHECKING:
    from .engine.case import Row, Tables
    from .hub.answer import Answer
    from .hub.candidates import VersionCandidates
    from .hub.whatif import Changes

__all__ = ["Patience", "prefetch"]
PATIENT = Patience()
MOST = 50  # kernels of one call, with those that they load in turn


@dataclass(frozen=True, slots=True)
class _Wish:
    """One kernel to bring."""

    reference: str
    needed_by: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)


def prefetch(
    references: Sequence[str],
    *,
    environment: Environment,
    changes: Changes | None = None,
    cache: str | None = None,
    python: str | None = None,
    lock: str | None = None,
    build_only: bool = False,
    patience: Patience = PATIENT,
) -> Cargo:
    """Bring the builds that a machine would load to where it finds them without a network.

    references: owner/name@revision, flash_attention_2. environment, changes: the machine that will load them. cache:
    the folder to fill, in the layout of huggingface_hub; by default the one that `environment` uses. python: the
    interpreter of that environment, where it is one of this machine: its kernels library is asked whether it finds
    them. lock: a kerneldoctor.lock, whose entries for this environment are brought as well, and held to its digests.
    build_only: no whole snapshots, whatever huggingface_hub asks for: found through LOCAL_KERNELS.

    Raises UsageError for names that are none and a lock without an entry for the environment.
    """
    from .engine.loading import shipped_tables
    from .hub.reference import Kind, parse_reference

    for reference in references:
        if parse_reference(reference).kind is Kind.BUILTIN:
            raise UsageError(f"{reference} comes with transformers and torch: there is nothing to fetch")
    tables = shipped_tables()
    environment, _ = api_hub.changed(environment, changes, tables)
    wishes = [*(_Wish(reference) for reference in dict.fromkeys(references)), *_locked(lock, environment)]
    if not wishes:
        raise UsageError("nothing to fetch: name a kernel, or a lock with --lock")
    folder = _cache(cache, environment)
    if build_only and ":" in folder:
        raise UsageError(f"{folder}: LOCAL_KERNELS cannot name a folder with a colon in it")
    forklift = _Forklift(environment, tables, folder, build_only, patience)
    items = forklift.bring_all(wishes)
    if any(item.state == "unsettled" for item in items):
        from .prefetch.offline import settle

        patience.progress("looking whether they would load offline")
        items = settle(items, forklift.environment, folder, python or "")
    return Cargo(tuple(items), folder, forklift.machine, datetime.date.today().isoformat(), __version__)


class _Forklift:
    """One call of `prefetch`."""

    def __init__(
        self, environment: Environment, tables: Tables, cache: str, build_only: bool, patience: Patience
    ) -> None:
        from .engine.case import Case
        from .hub.candidates import kernels_release, release_row
        from .hub.sources import refuses_partial

        located = replace(environment.huggingface, kernels_cache=known(cache, "prefetch"))
        self.environment = replace(environment, huggingface=located)
        self.machine = ""
        self._cache, self._patience = cache, patience
        case = Case(environment, tables)
        self._release: Row = release_row(tables, kernels_release(case)[0])
        # Where nobody knows which huggingface_hub will load it, the whole snapshot is right for every release.
        self._refuses_partial = refuses_partial(environment) is not False
        self._whole = self._refuses_partial and not build_only

    def bring_all(self, wishes: Sequence[_Wish]) -> Sequence[Item]:
        """Each kernel once, and the kernels that those load in turn."""
        waiting, seen, items = deque(wishes), {wish.reference for wish in wishes}, []
        while waiting:
            item, needs = self._bring(waiting.popleft())
            items.append(item)
            for need in needs:
                if need not in seen and len(seen) < MOST:
                    seen.add(need)
                    waiting.append(_Wish(need, item.reference))
        return items

    def _bring(self, wish: _Wish) -> tuple[Item, tuple[str, ...]]:
        from .hub.live import RepositoryMissingError, RevisionMissingError
        from .prefetch.bring import Order, bring
        from .smoke.fetch import chosen_version

        item = Item(wish.reference, "unreachable", needed_by=wish.needed_by)
        try:
            answer = self._ask(wish.reference)
            version = chosen_version(answer)
        except (RepositoryMissingError, RevisionMissingError) as error:
            return replace(item, state="missing", text=str(error)), ()
        except UndeterminedError as error:
            return replace(item, text=str(error)), ()
        except UsageError as error:
            return replace(item, state="missing", text=str(error)), ()
        item = replace(item, repo=answer.candidates.listing.repo, notes=_warnings(version))
        if version.preferred is None:
            return self._nothing(item, answer, version), ()
        listed = version.version
        item = replace(
            item, commit=listed.commit, build=version.preferred.build.name, whole=self._whole,
            revision=listed.commit if answer.meaning.reference.is_pinned else listed.name,
            through_path=self._refuses_partial and not self._whole,
        )  # fmt: skip
        return bring(Order(item, self._cache, self._release, wish.digests), self._patience)

    def _ask(self, reference: str) -> Answer:
        """What would load. Raises UndeterminedError where that is not the live Hub's word."""
        from .report.variants import machine_text

        asking = api_hub.Asking("live", self._patience.hub, self._patience.progress)
        answer = api_hub.variants(reference, environment=self.environment, asking=asking)
        self.machine = machine_text(answer)
        if answer.candidates.listing.source != "live":
            raise UndeterminedError("; ".join(answer.candidates.listing.notes) or "the Hub was not asked")
        return answer

    def _nothing(self, item: Item, answer: Answer, version: VersionCandidates) -> Item:
        from .report.variants import headline, version_sentence

        name = version.version.name
        text = headline(answer) if answer.asked else f"{name} {version_sentence(version, self.environment)}"
        return replace(item, state="no-build" if version.usable is False else "unsettled", text=text)


def _warnings(version: VersionCandidates) -> tuple[str, ...]:
    """What is known to speak against the build although it would be taken."""
    from .report.reasons import why

    text = why(version.preferred) if version.preferred is not None else ""
    return (f"it will be found, but: {text}",) if text else ()


def _locked(lock: str | None, environment: Environment) -> list[_Wish]:
    """The entries of a lock that are for this environment, by their commits."""
    if lock is None:
        return []
    from .lock import find_locked, fingerprint, read_lock

    entries, now = read_lock(lock), fingerprint(environment)
    found = [entry for entry in entries if find_locked(entries, entry.reference, now) is entry]
    if not found:
        raise UsageError(
            f"{lock}: none of its {len(entries)} entries is for this environment: see kerneldoctor recommend"
        )
    return [_Wish(entry.pin, digests=entry.digests) for entry in found]


def _cache(cache: str | None, environment: Environment) -> str:
    if cache is not None:
        path = os.path.abspath(os.path.expanduser(cache))
        if os.path.exists(path) and not os.path.isdir(path):
            raise UsageError(f"{cache}: this is no folder")
    else:
        folder = environment.huggingface.kernels_cache
        if folder.value is None:
            raise UndeterminedError(f"the kernel cache is not known ({folder.note}): name a folder with --to")
        path = folder.value
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot fetch into {path}: {error.strerror or error}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(f"cannot fetch into {path}: no permission to write there; name another folder with --to")
    return path


def usual_cache() -> str:
    """The kernel cache of this machine, for what is brought for another one."""
    return _cache(None, api_hub.look()[0])


def asked_python(environment: Environment, env: str | None, changes: Changes | None) -> str | None:
    """The interpreter whose kernels library can be asked: none where facts are saved or changed, or it is missing."""
    kernels, torch = environment.packages.get("kernels").version, environment.torch.version
    if env is not None or changes or not kernels.is_known or not torch.is_known:
        return None
    return environment.python.executable.value
