"""What is found before the import is a refusal with a reason and a remedy; nothing of the build is run for it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.engine.case import Case, Kernel
from kerneldoctor.engine.loading import shipped_tables
from kerneldoctor.environment import Environment, Package, Packages, known
from kerneldoctor.hub.candidates import release_row
from kerneldoctor.hub.metadata import read_metadata
from kerneldoctor.smoke.build_facts import build_id_of, kernel_of
from kerneldoctor.smoke.precheck import check_build, check_needs, check_publisher
from kerneldoctor.smoke.trial import Refusal, Subject
from tests.hub.server import Fault, Hub, serve
from tests.kernels.layout import metadata, repository, source, write

H200 = Path(__file__).parents[1] / "cases" / "environments" / "h200-torch211-cu130-transformers517-kernels0172.json"
NEWEST = release_row(shipped_tables(), "0.17.2")
BUILD = {"__init__.py": b"raise SystemExit('imported before it was checked')"}
CUDA = "torch211-cxx11-cu130-x86_64-linux"


def folder(tmp_path: Path, described: bytes | None = None, variant: str = "torch-cpu") -> Path:
    return write(tmp_path, repository(BUILD, described, variant)) / "build" / variant


def codes(refusals: Any) -> list[str]:
    return [refusal.code for refusal in refusals]


def test_a_build_as_it_was_built_is_let_through(tmp_path: Path) -> None:
    checked = check_build(folder(tmp_path), NEWEST)
    assert checked.refusals == ()
    assert checked.metadata is not None


def test_a_changed_file_is_named_with_the_folder_to_delete(tmp_path: Path) -> None:
    build = folder(tmp_path / "kernels--o--n" / "snapshots" / "c")
    (build / "__init__.py").write_bytes(b"x")
    (refusal,) = check_build(build, NEWEST).refusals
    assert refusal.code == "digest"
    assert refusal.files == ("__init__.py",)
    assert "__init__.py is not what was built" in refusal.why
    assert refusal.remedy.endswith("kernels--o--n")


@pytest.mark.parametrize(
    ("described", "why"), [(b"{", "no JSON"), (b"{}", "lacks name"), (metadata(BUILD, name=None), "lacks name")]
)
def test_unreadable_metadata_is_a_refusal_where_kernels_demands_it(tmp_path: Path, described: bytes, why: str) -> None:
    build = folder(tmp_path, described)
    (refusal,) = check_build(build, NEWEST).refusals
    assert refusal.code == "metadata"
    assert why in refusal.why
    assert check_build(build, release_row(shipped_tables(), "0.13.0")).refusals == ()


def test_a_build_without_a_digest_is_said_to_have_none(tmp_path: Path) -> None:
    checked = check_build(folder(tmp_path, metadata(BUILD, digest=None)), NEWEST)
    assert checked.refusals == ()
    assert "no digest" in checked.notes[0]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "M-Upper"}, "has a name that kernels 0.17.2 does not take: it wants lower-case letters, digits and"),
        ({"version": -1}, "has a version that kernels 0.17.2 does not take: it wants a whole number from 0"),
        ({"backend": {"type": "abacus"}}, "has a backend.type that kernels 0.17.2 does not take: it wants one of cann"),
        ({"name": "M", "license": None}, "lacks license, which kernels 0.17.2 demands; has a name that"),
    ],
)  # fmt: skip
def test_what_is_there_in_a_wrong_form_is_told_from_what_is_lacking(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    (refusal,) = check_build(folder(tmp_path, metadata(BUILD, **changes)), NEWEST).refusals
    assert why in refusal.why


def test_of_a_folder_on_disk_nothing_speaks_of_a_download_or_a_cache(tmp_path: Path) -> None:
    for number, described in enumerate((b"{", metadata(BUILD, name="M"))):
        (refusal,) = check_build(folder(tmp_path / str(number), described), NEWEST, from_hub=False).refusals
        assert "build/VARIANT/__init__.py" in refusal.remedy
    build = folder(tmp_path / "changed")
    (build / "__init__.py").write_bytes(b"x")
    (refusal,) = check_build(build, NEWEST, from_hub=False).refusals
    assert "write the digest anew" in refusal.remedy
    (note,) = check_build(folder(tmp_path / "no", metadata(BUILD, digest=None)), NEWEST, from_hub=False).notes
    assert note == "metadata.json holds no digest: nothing says how the files were when built"


def test_links_that_leave_the_repository_and_pipes_are_named(tmp_path: Path) -> None:
    cached = tmp_path / "kernels--o--n" / "snapshots" / "c"
    for root, from_hub in ((cached, True), (tmp_path / "own", False)):
        build = folder(root, metadata(BUILD, digest=None))
        (build / "inside.py").symlink_to("__init__.py")
        assert check_build(build, NEWEST, from_hub).refusals == ()
        (build / "evil").symlink_to("/etc/passwd")
        (build / "gone").symlink_to("nowhere")
        os.mkfifo(build / "pipe")
        checked = check_build(build, NEWEST, from_hub)
        said = "; ".join(refusal.why for refusal in checked.refusals) if from_hub else "; ".join(checked.notes)
        for words in ("evil is a link that leads out", "gone is a link that leads nowhere", "pipe is a pipe"):
            assert words in said
        assert "inside.py" not in said
        assert bool(checked.refusals) == from_hub


def test_the_links_of_the_cache_lead_to_blobs_wherever_these_lie(tmp_path: Path) -> None:
    build = folder(tmp_path / "kernels--o--n" / "snapshots" / "c", metadata(BUILD, digest=None))
    data = (build / "__init__.py").read_bytes()
    blob = tmp_path / "other-disk" / hashlib.sha256(data).hexdigest()
    blob.parent.mkdir()
    blob.write_bytes(data)
    (build / "__init__.py").unlink()
    (build / "__init__.py").symlink_to(blob)
    assert check_build(build, NEWEST).refusals == ()


def test_a_pipe_that_the_digest_lists_is_not_waited_for(tmp_path: Path) -> None:
    build = folder(tmp_path)
    (build / "__init__.py").unlink()
    os.mkfifo(build / "__init__.py")
    (refusal, *_) = check_build(build, NEWEST, from_hub=False).refusals
    assert "__init__.py cannot be read" in refusal.why


def test_an_id_that_is_no_name_is_noted(tmp_path: Path) -> None:
    notes = check_build(folder(tmp_path, metadata(BUILD, id="../../etc")), NEWEST).notes
    assert notes == ("the id in metadata.json is no name: '../../etc'",)


# --- what it asks of the machine ------------------------------------------------------------------------------------


def h200(**packages: str) -> Environment:
    environment = Environment.from_json(json.loads(H200.read_text("utf-8")))
    items = {name: Package(version=known(version, "t")) for name, version in packages.items()}
    return replace(environment, packages=Packages({**environment.packages.items, **items}, True, "t"))


def kernel(tmp_path: Path, **changes: Any) -> Kernel:
    build = folder(tmp_path, metadata(BUILD, **changes), CUDA)
    subject = Subject("o/n@v1", "o/n", "v1", variant=CUDA)
    return kernel_of(subject, read_metadata(build), known(True, "t"))


def needs(
    made: Kernel, environment: Environment, release: Any = NEWEST, device: str = "cuda:0", hub: bool = True
) -> tuple[list[Refusal], list[str]]:
    return check_needs(made, Case(environment, shipped_tables()), release, device, hub)


def test_a_gpu_without_code_is_refused_where_kernels_refuses_it(tmp_path: Path) -> None:
    made = kernel(tmp_path, backend={"type": "cuda", "archs": ["8.0", "12.0+PTX"]})
    # 8.0 code does not run on capability 9.0, and 12.0+PTX is for newer ones only.
    ((refusal,), _) = needs(made, h200())
    assert refusal.code == "wrong-architecture"
    assert "9.0" in refusal.why
    assert needs(made, h200(), release_row(shipped_tables(), "0.15.2"))[0] == []
    refusals, notes = needs(made, h200(), hub=False)
    assert refusals == []
    assert "none for" in notes[0]


@pytest.mark.parametrize("archs", [["9.0"], ["9.0a"], ["8.0", "9.0+PTX"], []])
def test_a_gpu_with_code_is_let_through(tmp_path: Path, archs: list[str]) -> None:
    backend = {"type": "cuda", **({"archs": archs} if archs else {})}
    assert needs(kernel(tmp_path, backend=backend), h200()) == ([], [])


def test_a_cuda_build_has_nothing_to_be_tried_on_a_cpu(tmp_path: Path) -> None:
    ((refusal,), _) = needs(kernel(tmp_path, backend={"type": "cuda"}), h200(), device="cpu")
    assert refusal.code == "wrong-device"


def test_the_minimum_release_counts_as_the_installed_release_counts_it(tmp_path: Path) -> None:
    made = kernel(tmp_path, kernels_minver="0.18.0")
    ((refusal,), _) = needs(made, h200())
    assert refusal.code == "minver"
    assert refusal.remedy == 'pip install "kernels>=0.18.0"'
    assert needs(made, h200(), release_row(shipped_tables(), "0.15.2"))[0] == []
    assert needs(kernel(tmp_path / "b", kernels_minver="0.17.0"), h200())[0] == []


def test_a_missing_dependency_is_named_by_its_distribution(tmp_path: Path) -> None:
    made = kernel(tmp_path, python_depends=["tvm-ffi", "einops"])
    ((refusal,), _) = needs(made, h200(einops="0.8"))
    assert refusal.code == "missing-dependency"
    assert refusal.remedy == "pip install apache-tvm-ffi"
    assert needs(made, h200(**{"einops": "0.8", "apache-tvm-ffi": "0.1"}))[0] == []


def test_the_build_id_comes_from_the_file_or_the_metadata(tmp_path: Path) -> None:
    build = folder(tmp_path)
    assert build_id_of(build, read_metadata(build)) == "0123abc"
    (build / "_flash_attn2_cuda_48628c8.abi3.so").write_bytes(b"")
    assert build_id_of(build, read_metadata(build)) == "48628c8"
    assert build_id_of(write(tmp_path / "x", source("")), None) == ""


# --- publishers -----------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serve() as running:
        running.repo("good/kernel")
        running.repo("other/kernel", trusted=False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", running.url)
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield running


def trust(repo: str, names: tuple[str, ...] = (), release: str = "0.17.2", asks: bool = True) -> tuple[Any, str]:
    fact, refusal = check_publisher(repo, release_row(shipped_tables(), release), names, asks, 5)
    return fact.value, refusal.remedy if refusal else ""


def test_the_hub_says_whom_it_trusts(hub: Hub) -> None:
    assert trust("good/kernel") == (True, "")
    value, remedy = trust("other/kernel")
    assert value is False
    assert remedy.endswith("--trust-remote-code other/kernel")


def test_trust_is_given_by_the_name_of_the_repository(hub: Hub) -> None:
    assert trust("other/kernel", ("other/kernel",)) == (True, "")
    assert trust("other/kernel", ("good/kernel",))[0] is False


def test_the_release_with_a_fixed_list_asks_nobody(hub: Hub) -> None:
    assert trust("good/kernel", release="0.14.0")[0] is False
    assert trust("kernels-community/relu", release="0.14.0") == (True, "")
    assert hub.requests == []


def test_without_an_answer_nobody_is_trusted(hub: Hub) -> None:
    hub.faults.append(Fault("overview", status=500))
    value, remedy = trust("good/kernel")
    assert value is None
    assert "--trust-remote-code" in remedy
    assert trust("good/kernel", asks=False)[1]
    assert trust("kernels-community/relu", asks=False) == (True, "")
