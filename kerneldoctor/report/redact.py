"""Takes people, machines and secrets out of what we print: reports are made to be pasted.

Pure functions over text and values; who and where we are is gathered once, as an `Identity`. Names that are also
words of this trade ("torch", "grace") or belong to nobody ("root", "ubuntu") stay in prose: they say nothing, and
replacing them would shred the report.
"""

from __future__ import annotations

import dataclasses
import functools
import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from ..engine.model import Advice
from ..environment import fact_paths
from ..values import dataclass

T = TypeVar("T")

_NOBODY = frozenset(
    re.findall(
        r"\S+",
        """
        root user users admin administrator ubuntu debian centos fedora rocky arch ec2-user azureuser opc gcp jovyan
        runner docker container nobody app appuser dev developer test tester guest default vagrant pi localhost
        localdomain host node worker master login gpu server build builder ci jenkins gitlab-runner github actions
        codespace vscode colab kaggle sagemaker notebook jupyter conda shared public
        """,
    )
)
_TRADE = frozenset(
    re.findall(
        r"\S+",
        """
        torch pytorch cuda nvidia triton flash flash-attn attn attention kernel kernels transformers huggingface hub
        hugging face trl accelerate peft numpy python cpython pypy linux windows darwin driver gpus system toolkit
        packages extension extensions requirements visibility deep nvml nvcc ptxas ninja gcc clang glibc musl libcuda
        cudart nvrtc cudnn nccl cublas pip conda venv wheel hopper ada lovelace grace ampere turing volta pascal
        maxwell blackwell rubin error warning info none unknown known absent source value version true false file path
        home data work workspace project projects models model main latest default local lib share site dist bin opt
        tmp var usr etc mnt scratch storage token secret credentials slurm kubernetes docker podman apptainer intel
        apple rocm kerneldoctor confirmed possible reported inferred safe caution destructive command
        """,
    )
)
_NO_HOME = frozenset(
    ("", "/", "/usr", "/tmp", "/var", "/opt", "/etc", "/bin", "/lib", "/home", "/mnt", "/srv", "/dev", "/proc", "/sys")
)
USER, HOST = "<user>", "<host>"  # what stands for a name in prose
CAPTURED_HOME = "/home/user"  # absolute, because probes walk up and down from it when a capture is replayed
_SHELL = ("command", "verify", "undo")  # what of an Advice is typed into a shell
_WORD_LENGTH = 4  # a shorter name is replaced only where it is a whole folder name: "max" and "art" are words
_FOLDER_LENGTH = 3  # a shorter one only directly below /home: "c" and "go" are folders of anybody

_SECRET_NAME = r"(?:token|secret|signature|password|passwd|credentials?|api[_-]?key|access[_-]?key|auth)"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), into)
    for pattern, into in (
        # An @ in a password belongs to it, so everything up to the last one before the path goes.
        (r"(?<=://)[^/\s?#\"'<>]+@", "<credentials>@"),
        (rf"(?i)([?&;][\w.-]*(?:{_SECRET_NAME}|key|sig)=)[^&\s#\"'<>;]+", r"\1<secret>"),
        # Code such as token=True and a variable's name are no secrets; "==" is a version, not a value.
        (rf"(?i)\b([\w-]*{_SECRET_NAME}=[\"']?)(?!=|\$|True\b|False\b|None\b)[^\s\"'<>;&,)]+", r"\1<secret>"),
        (rf"(?i)\b([\w-]*{_SECRET_NAME}[\"']?\s*:\s*[\"'])[^\"'<>]+", r"\1<secret>"),
        (r"(?i)\b(authorization:\s*(?:bearer|basic|token)\s+)[^\s\"'<>]+", r"\1<secret>"),
        (r"(?i)\b(bearer\s+)[\w.~+/=-]{16,}", r"\1<secret>"),
        (r"(?:hf|api_org|gh[pousr])_[A-Za-z0-9]{16,}", "<token>"),
        (r"github_pat_\w{16,}|pypi-[\w-]{40,}|npm_[A-Za-z0-9]{30,}", "<token>"),
        (r"(?<![A-Za-z0-9])(?:sk|glpat|nvapi|xox[abprs])-[\w-]{16,}", "<token>"),
        (r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])", "<token>"),
        (r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", "<token>"),
        # The first eight digits still name the GPU, in CUDA_VISIBLE_DEVICES too, which takes prefixes.
        (r"(?i)\b(GPU|MIG)-([0-9a-f]{8})-[0-9a-f-]+", r"\1-\2"),
    )
)
_SOMEBODYS_HOME = re.compile(r"(?P<parent>(?:/home/|/Users/|\\Users\\))(?P<name>[^/\\\s\"'<>:;,)\]]+)")
# Whatever an expression above matches holds at least one of these; most texts hold none, and are done at once.
_TELLTALE = re.compile(
    r"(?i)://|=|:\s*[\"']|_[a-z0-9]{16}|-[\w-]{16}|authorization:|bearer\s|akia|asia|eyJ|pu-|ig-|[\\/](?:home|users)[\\/]"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose machine it is. Empty for a machine that nobody told us about."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()


def identity_from(environ: Mapping[str, str], homes: Iterable[str], hosts: Iterable[str]) -> Identity:
    """Who runs this and where: from variables, the spellings of the home folder and names of the machine."""
    homes = {home.rstrip("/") for home in homes}
    users = {environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    # /home/alice says who is there even where no variable does.
    users |= {os.path.basename(h) for h in homes if os.path.dirname(h).endswith(("/home", "/Users"))}
    names = {*hosts, environ.get("HOSTNAME", ""), environ.get("SLURMD_NODENAME", "")}
    names |= {name.partition(".")[0] for name in names}
    return Identity(
        users=_longest_first(u for u in users if u.lower() not in _NOBODY),
        hosts=_longest_first(h for h in names if h.lower() not in _NOBODY),
        homes=_longest_first(h for h in homes if h.startswith("/")),
    )


class Redactor:
    """Replaces secrets, homes, users and hosts in texts."""

    def __init__(self, identity: Identity, user: str = USER, host: str = HOST, home: str = "~") -> None:
        self._user, self._host = user, host
        self._names: list[tuple[re.Pattern[str], str]] = []
        self._homes = [(pattern, home) for one in identity.homes if (pattern := _home_pattern(one))]
        names = {**dict.fromkeys(identity.hosts, host), **dict.fromkeys(identity.users, user)}
        # Longest first: in "alice-laptop" the host is the whole, not what is left beside the user.
        for name in sorted(names, key=lambda name: (-len(name), name)):
            if pattern := _name_pattern(name):
                self._names.append((pattern, names[name]))
        self._memo: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """The text without what must not leave this machine. Redacting twice changes nothing."""
        known = self._memo.get(text)
        if known is None:
            known = self._memo[text] = self._redact(text)
        return known

    def _redact(self, text: str) -> str:
        telling = _TELLTALE.search(text) is not None
        if telling:
            for pattern, into in _PATTERNS:
                text = pattern.sub(into, text)
        for pattern, into in self._homes:
            text = pattern.sub(into, text)
        if telling:
            text = _SOMEBODYS_HOME.sub(self._other_home, text)
        for pattern, into in self._names:
            text = pattern.sub(lambda _, into=into: into, text)  # type: ignore[misc]
        # Facts that were read from a redacted file already hold the words for prose.
        return text.replace(USER, self._user).replace(HOST, self._host)

    def _other_home(self, match: re.Match[str]) -> str:
        name = match["name"]
        keep = name.lower() in _NOBODY or name.startswith((".", "$", "~", "*"))
        return match[0] if keep else match["parent"] + self._user


def redact_json(document: Any, redact: Callable[[str], str]) -> Any:
    """A JSON value with every text redacted, keys included."""
    if isinstance(document, str):
        return redact(document)
    if isinstance(document, Mapping):
        return {redact(str(key)): redact_json(value, redact) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [redact_json(item, redact) for item in document]
    return document


def redact_value(value: T, identity: Identity) -> T:
    """A frozen value (a Report, an Environment) with every text in it redacted.

    In commands a user is "$USER" and a host "$HOSTNAME": "<user>" would be a redirection to the shell.
    """
    prose, command = Redactor(identity), Redactor(identity, "$USER", "$HOSTNAME")
    return cast(T, _rebuild(value, prose, command))


def _rebuild(value: Any, prose: Redactor, command: Redactor) -> Any:
    if isinstance(value, str):
        return prose(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_rebuild(item, prose, command) for item in value)
    if isinstance(value, Mapping):
        return {_rebuild(key, prose, command): _rebuild(inner, prose, command) for key, inner in value.items()}
    kind: Any = type(value)
    names = _fields(kind)
    if not names:
        return value
    shell = _SHELL if isinstance(value, Advice) else ()
    parts = {n: _rebuild(getattr(value, n), command if n in shell else prose, command) for n in names}
    return kind(**parts)


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


_CAPTURED = (
    r"(?:CUDA|NVIDIA|NV_|NVCC|HF_|HUGGING|TRANSFORMERS|KERNELS?_|LOCAL_KERNELS|USE_|DISABLE_|DO_NOT_TRACK|TORCH|PYTORCH|"
    r"TRITON|FLASH|XFORMERS|LD_|PATH$|PYTHON|VIRTUAL_ENV|CONDA_|XDG_|HOME$|USER$|LOGNAME$|HOSTNAME$|CC$|CXX$|CPATH$|"
    r"C_INCLUDE_PATH$|LIBRARY_PATH$|MAX_JOBS|NCCL|ROCM|ROCR|HIP_|HSA_|ZE_|ONEAPI|WSL|SINGULARITY|APPTAINER|container$|"
    r"SLURM_(?:JOB_ID|JOBID|NTASKS|NNODES|PROCID|LOCALID)|PBS_JOBID|LSB_JOBID|KUBERNETES_SERVICE_HOST|COLAB|KAGGLE|"
    r"SAGEMAKER|SM_CURRENT_HOST$|SM_TRAINING_ENV$|BNB_|DATABRICKS_RUNTIME|PAPERSPACE|JPY_PARENT|RANK$|LOCAL_RANK$|WORLD_SIZE$|(?i:(?:https?|all|no)_proxy$))"
)
_SECRET_VARIABLE = re.compile(rf"(?i){_SECRET_NAME}$|_key$|proxy$|^SM_TRAINING_ENV$")


def captured_variable(name: str) -> bool:
    """Whether a variable goes into a capture: those that decide how GPU software behaves, nothing private."""
    return re.match(_CAPTURED, name) is not None


def redact_capture(document: Mapping[str, Any], identity: Identity | None) -> dict[str, Any]:
    """A capture without secrets; with an identity, without names and homes as well.

    Values of secret variables never go in: that they are set is all a probe reads.
    """
    environ = {
        name: "<secret>" if value and _SECRET_VARIABLE.search(name) else value
        for name, value in document["environ"].items()
    }
    cleaned = {**document, "environ": environ}
    return (
        cast("dict[str, Any]", redact_json(cleaned, Redactor(identity, home=CAPTURED_HOME)))
        if identity is not None
        else cleaned
    )


def _longest_first(names: Iterable[str]) -> tuple[str, ...]:
    # "<" marks a name that a capture already had redacted.
    return tuple(sorted({n for n in names if n and "<" not in n and not n.isdigit()}, key=lambda n: (-len(n), n)))


def _spellings(name: str) -> str:
    """A name as it may be written: as it is, percent-encoded, or as UTF-8 bytes read as Latin-1 (in captures)."""
    forms = {name}
    if not re.fullmatch(r"[\w./~-]+", name, re.ASCII):
        import urllib.parse

        forms |= {urllib.parse.quote(name), name.encode("utf-8", "surrogateescape").decode("latin-1")}
    return "|".join(sorted(map(re.escape, forms), key=len, reverse=True))


def _home_pattern(home: str) -> re.Pattern[str] | None:
    if home in _NO_HOME:
        return None
    return re.compile(rf"(?<![\w.~-])(?:{_spellings(home)})(?![\w-]|\.\w)")


def _name_pattern(name: str) -> re.Pattern[str] | None:
    if len(name) < _FOLDER_LENGTH or name.lower() in _NOBODY | _TRADE | _schema_words():
        return None
    if len(name) < _WORD_LENGTH:
        return re.compile(rf"(?i)(?:(?<=[/\\])|(?<![\w.-])(?=[^/\\]+@))(?:{_spellings(name)})(?![\w.-])")
    return re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{_spellings(name)})(?![A-Za-z0-9])")


@functools.cache
def _schema_words() -> frozenset[str]:
    """The words that fact paths are made of."""
    return frozenset(word for path, _ in fact_paths() for part in path.split(".") for word in (part, *part.split("_")))
