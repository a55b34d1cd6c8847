"""Files to start from, ready to copy: CI, batch jobs, images, hooks. Reads them; knows nothing of what they say."""

from __future__ import annotations

import difflib
from pathlib import Path

from ..errors import UsageError
from ..values import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """One file, and where it belongs in a repository."""

    name: str
    file: str  # in this folder
    target: str
    purpose: str

    @property
    def text(self) -> str:
        """What the file says."""
        return Path(__file__).with_name(self.file).read_text("utf-8")


EXAMPLES = (
    Example("github-actions", "github-actions.yml", ".github/workflows/kernels.yml",
            "a job without GPU that predicts, and one that runs the kernels"),
    Example("gitlab", "gitlab.yml", ".gitlab-ci.yml", "the same for GitLab"),
    Example("slurm", "slurm.sh", "job.sh", "a batch job whose ranks test their GPUs before they train"),
    Example("docker", "Dockerfile", "Dockerfile", "an image that brings its kernels, judged for the GPU to come"),
    Example("pre-commit", "pre-commit.yaml", ".pre-commit-config.yaml", "a hook that looks at the pins in a commit"),
    Example("policy", "kerneldoctor.toml", "kerneldoctor.toml", "what preflight demands"),
)  # fmt: skip


def check_new(path: str) -> None:
    """Raises UsageError for a file that somebody has: an example is there to be changed."""
    if Path(path).is_file():
        raise UsageError(f"{path} is there already: name another file, or write over it with --force")


def find_example(name: str) -> Example:
    """The example of a name. Raises UsageError that offers the nearest one."""
    found = next((example for example in EXAMPLES if example.name == name), None)
    if found is not None:
        return found
    names = [example.name for example in EXAMPLES]
    near = [known for known in names if known.startswith(name)] or difflib.get_close_matches(name, names, 1, 0.4)
    hint = f"; the nearest is {near[0]}" if near else ""
    raise UsageError(f"there is no example {name!r}{hint}. Examples: {', '.join(names)}")
