"""Every file is held to the digest and to what the Hub sent; what cannot be read is named, never a traceback."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from kerneldoctor.hub.metadata import MetadataError, read_metadata
from kerneldoctor.smoke.digest import Damage, check_files
from tests.kernels.layout import metadata

BUILD = {
    "__init__.py": b"x = 1\n",
    "sub/_ops.py": b"y = 2\n",
    ".hidden": b"",
    "big.so": b"\x7fELF" * 3_000_000,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, data in {**BUILD, "metadata.json": metadata(BUILD)}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return tmp_path


def damages(folder: Path) -> set[tuple[str, str]]:
    return {(damage.path, damage.kind) for damage in check_files(folder, read_metadata(folder))}


def test_an_untouched_build_is_fine_byte_code_and_signature_aside(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    (folder / "old.pyc").write_bytes(b"x")
    (folder / "metadata.json.sigstore").write_bytes(b"{}")
    assert damages(folder) == set()


def test_each_damage_is_named_by_file(folder: Path) -> None:
    (folder / "big.so").write_bytes(BUILD["big.so"][:-1])
    (folder / "__init__.py").unlink()
    (folder / "sub" / "evil.py").write_text("")
    assert damages(folder) == {("big.so", "changed"), ("__init__.py", "missing"), ("sub/evil.py", "unknown")}


def test_sha512_is_read_and_another_algorithm_refused(folder: Path) -> None:
    import base64

    described = json.loads(metadata(BUILD))
    described["digest"]["algorithm"] = "sha512"
    described["digest"]["files"] = {p: base64.b64encode(hashlib.sha512(d).digest()).decode() for p, d in BUILD.items()}
    (folder / "metadata.json").write_text(json.dumps(described))
    assert damages(folder) == set()
    described["digest"]["algorithm"] = "md5"
    (folder / "metadata.json").write_text(json.dumps(described))
    with pytest.raises(MetadataError, match="digest"):
        read_metadata(folder)


def test_a_file_of_the_cache_is_held_to_its_own_name_where_no_digest_is(tmp_path: Path) -> None:
    blobs, build = tmp_path / "blobs", tmp_path / "build"
    blobs.mkdir()
    build.mkdir()
    small, large = b"print(1)\n", b"ELF" * 1000
    names = {
        "small.py": (small, hashlib.sha1(b"blob %d\0" % len(small) + small).hexdigest()),
        "large.so": (large, hashlib.sha256(large).hexdigest()),
        "metadata.json": (described := metadata({}, digest=None), hashlib.sha256(described).hexdigest()),
    }
    for name, (data, blob) in names.items():
        (blobs / blob).write_bytes(data)
        (build / name).symlink_to(blobs / blob)
    assert damages(build) == set()
    (blobs / names["large.so"][1]).write_bytes(large[:-3])
    (blobs / names["small.py"][1]).write_bytes(b"print(2)\n")
    assert damages(build) == {("large.so", "changed"), ("small.py", "changed")}


def test_a_file_that_cannot_be_opened_is_damage_and_no_crash(folder: Path) -> None:
    (folder / "sub" / "_ops.py").unlink()
    (folder / "sub" / "_ops.py").symlink_to(folder / "nowhere")
    assert ("sub/_ops.py", "unreadable") in damages(folder)


@pytest.mark.torch
def test_the_digest_is_the_one_that_kernels_computes(folder: Path) -> None:
    from kernels._rust import Digest, DigestAlgorithm

    (folder / "link.py").symlink_to(folder / "__init__.py")
    (folder / "folder-link").symlink_to(folder / "sub")
    theirs = Digest.hash_variant(DigestAlgorithm.SHA256, folder)
    described = json.loads(metadata(BUILD))
    described["digest"]["files"] = theirs.files
    (folder / "metadata.json").write_text(json.dumps(described))
    assert check_files(folder, read_metadata(folder)) == ()
    (folder / "sub" / "_ops.py").write_text("z")
    assert check_files(folder, read_metadata(folder)) == (Damage("sub/_ops.py", "changed"),)
