"""Writes data/answers.json: what each `kernels` release answers to the same pairs. For maintainers, on a new release.

    for v in 0.4.0 0.4.4 ... 0.17.2; do
        pip download --no-deps --only-binary :all: -d wheels kernels==$v
        unzip -q wheels/kernels-$v-*.whl -d releases/$v
    done
    python -m tests.hub.oracle.freeze releases

0.4.5 was published as a source archive only (`--no-binary :all:`): its `src/kernels` becomes `releases/0.4.5/kernels`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from packaging.version import Version

from .cases import Case, cases

SEED, COUNT = 20261201, 1000
ANSWERS = Path(__file__).parents[1] / "data" / "answers.json"
ASK = Path(__file__).with_name("ask.py")


def ask(folder: Path, pairs: list[Case], python: str = sys.executable) -> list[tuple[list[str], dict[str, str]]]:
    """What the release unpacked in `folder` answers."""
    done = subprocess.run(
        [python, str(ASK), str(folder)], input=json.dumps(pairs), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers: list[tuple[list[str], dict[str, str]]] = json.loads(done.stdout)
    return answers


def main(releases: Path) -> None:
    pairs = list(cases(SEED, COUNT))
    blocks: list[dict[str, list[str] | list[list[int]]]] = []
    for folder in sorted((f for f in releases.iterdir() if f.is_dir()), key=lambda f: Version(f.name)):
        accepted = [
            [names.index(name) for name in taken]
            for (_, names), (taken, _) in zip(pairs, ask(folder, pairs), strict=True)
        ]
        same = next((b for b in blocks if b["accepted"] == accepted), None)
        if same is None:
            blocks.append(same := {"releases": [], "accepted": accepted})
        same["releases"].append(folder.name)  # type: ignore[arg-type]
    ANSWERS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(block, separators=(",", ":")) for block in blocks)
    ANSWERS.write_text(f'{{"seed":{SEED},"count":{COUNT},"blocks":[\n{lines}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
