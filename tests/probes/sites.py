"""Makes site-packages folders in tmp_path, and scenes that look at them."""

from __future__ import annotations

from pathlib import Path

from kerneldoctor.host import Host, RealHost
from kerneldoctor.probes.scene import Scene, Target


def add(
    root: Path,
    name: str,
    version: str,
    *,
    requires: tuple[str, ...] = (),
    python: str = "",
    metadata: bytes | None = None,
    installer: str | None = "pip",
) -> Path:
    """A .dist-info folder. `metadata` replaces the whole METADATA file."""
    folder = root / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    lines += [f"Requires-Python: {python}"] if python else []
    text = "\n".join(lines) + "\n\nA readme that says:\nRequires-Dist: nonsense\n"
    (folder / "METADATA").write_bytes(text.encode() if metadata is None else metadata)
    if installer is not None:
        (folder / "INSTALLER").write_text(f"{installer}\n")
    return folder


def target(*path: Path | str, version: str = "3.11.7", prefix: str = "/opt/venv", include: str = "/none") -> Target:
    return Target(
        executable=f"{prefix}/bin/python",
        version=version,
        implementation="cpython",
        free_threaded=False,
        abi_tag="cp311",
        prefix=prefix,
        base_prefix="/usr",
        include=include,
        sys_path=tuple(str(p) for p in path),
        is_self=False,
    )


def scene(*path: Path | str, host: Host | None = None, version: str = "3.11.7") -> Scene:
    return Scene(host or RealHost(), target(*path, version=version))
