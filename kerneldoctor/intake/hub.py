"""Reads what names a Hub kernel: references, cache paths, build folders, variant listings, the library's messages."""

from __future__ import annotations

import re

from .labels import VARIANT_NAME, variant
from .model import Source
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

KIND = "kernels"
_REPO = re.compile(
    r"(?<![\w/.-])((?:kernels-community|kernels-staging|RedHatAI|ggml-org)/[A-Za-z0-9][\w.-]{1,60}?)(?:@"
    r"([\w./-]{1,64}))?(?=[\s\"'`),;:*\]<>}]|\.(?:\s|$)|$|/tree|/resolve|/blob|/commit)"
)
_CALL = re.compile(
    r"(?:get_kernel|has_kernel|load_kernel|install_kernel|LayerRepository|FuncRepository"
    r"|LockedLayerRepository)\(\s{0,4}(?:repo_id\s{0,2}=\s{0,2})?[\"']([\w.-]{1,60}/[\w.-]{1,80})[\"']([^)]{0,200})"
)
_ARGUMENT = re.compile(r"\b(revision|version)\s{0,2}=\s{0,2}[\"']?([\w./-]{1,64})")
_CACHE = re.compile(
    r"(?:models|kernels)--([\w.]+(?:-[\w.]+){0,4})--([\w.]+(?:-[\w.]+){0,6})[/\\]+(?:snapshots[/\\]+([0-9a-f]{7,40}))?",
    re.ASCII,
)
_URL = re.compile(
    r"(?:huggingface\.co|hf\.co)/(?:api/)?(?:kernels|models)/([\w.-]{1,60}/[\w.-]{1,80})(?:/(?:tree|resolve|revision"
    r"|blob)/([\w.-]{1,64}))?"
)
_BUILD_ID = re.compile(
    r"(?<![A-Za-z0-9])_?([a-z][a-z0-9_]{2,60}?)_((?:[0-9a-f]{7,8}|[0-9a-f]{12,16}))\.(?:abi3"
    r"|cpython-\w{2,5}[\w-]{0,40})\.(?:so|pyd)",
    re.ASCII,
)
_LISTED = re.compile(r"\s*((?:torch|tvm)[\w.-]{3,80}?)(?:: (.{8,300})|\s+compatible(, preferred)?\s*✅?)\s*$")
_NO_VARIANT = re.compile(
    r"Cannot find a build variant for this system in ([^\s:(]{1,200})(?:\s\(revision: ([\w./-]{1,64})\))?"
)
_LACKS = re.compile(r"does not have (?:one of )?build(?: variants?)?: ([\w ,.-]{5,400})")
_ARCHS = re.compile(
    r"(?:declares archs|architectures of the build):? ?\[?((?:'?\d{1,2}\.\d[af]?(?:\+PTX)?'?,? ?){1,16})"
)
_UNSUPPORTED = re.compile(r"Kernel '([\w.-]{1,60})' variant '([\w.-]{5,80})'")
_DEPENDS = re.compile(r"Kernel module `([\w.-]{1,60})` requires Python dependency `([\w.-]{1,60})`")
_UNTRUSTED = re.compile(r"'?([\w.-]{1,60}/[\w.-]{1,80})'? is not from a trusted publisher")
_SNAPSHOT = re.compile(r"snapshots?[/\\ ]([0-9a-f]{7,40})[/\\]build[/\\]")
_INSTEAD = re.compile(r"do not have `flash_attn` installed, using `([\w./-]{3,80})` from the `kernels` library")
_VERSION_HEAD = re.compile(r"Version (\d{1,3}):\s*$")
_INFO = {"repository": "repo", "revision": "revision", "minimum kernels version": "minver", "version": "version"}
_MINE = frozenset({"transformers", "kernels", "models", "kernels-community"})


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line that may name a Hub kernel."""
    text = line.text
    if listed := _LISTED.match(text):
        parts = variant(listed[1])
        if parts is not None:
            return _listing(listed, line, notebook)
    for call in _CALL.finditer(text):
        _reference(call[1], dict(_ARGUMENT.findall(call[2])), line, notebook)
    for repo in _REPO.finditer(text):
        _reference(repo[1], {"revision": repo[2]} if repo[2] else {}, line, notebook)
    if snapshot := _SNAPSHOT.search(text):
        _add("commit", snapshot[1], line, notebook)
        if noarch := re.search(r"build[/\\](torch-(?:cuda|rocm|xpu|cpu|metal|universal))\b", text):
            _variant(noarch[1], line, notebook)
    if "--" in text and (cache := _CACHE.search(text)) and ("kernels" in cache[0] or "kernel" in line.low):
        _reference(f"{cache[1]}/{cache[2]}", {}, line, notebook, Source.RUN)
        if cache[3]:
            _add("commit", cache[3], line, notebook)
    if url := _URL.search(text):
        _reference(url[1], {"revision": url[2]} if url[2] else {}, line, notebook, Source.RUN)
    _file(line, notebook)
    _messages(line, notebook)
    return False


def _add(field: str, value: object, line: Line, notebook: Notebook, source: Source = Source.RUN) -> None:
    notebook.add(f"kernel.{field}", value, line, KIND, source)


def _reference(
    repo: str, told: dict[str, str], line: Line, notebook: Notebook, source: Source = Source.PRINTED
) -> None:
    if not re.search(
        r"kernels|attn|attention|triton|fp8|gemm|conv1d|mamba|rotary|norm|activation|moe|quant|relu|demo", repo, re.I
    ):
        return
    if re.search(
        r"\b(?:works? (?:with|on|fine)|instead|e\.g\.|for example|try|switch(?:ing)? to|or use|pin)\b", line.low
    ):
        source = Source.MENTIONED
    if re.search(r"github\.com/", line.low):
        return
    _add("repo", repo.rstrip("."), line, notebook, source)
    revision = told.get("revision")
    if told.get("version", "").isdigit():
        _add("version", int(told["version"]), line, notebook, source)
    if revision:
        _add("revision", revision, line, notebook, source)
        if number := re.fullmatch(r"v(\d{1,3})", revision):
            _add("version", int(number[1]), line, notebook, source)
        elif re.fullmatch(r"[0-9a-f]{7,40}", revision):
            _add("commit", revision, line, notebook, source)


def _file(line: Line, notebook: Notebook) -> None:
    """A build folder and a compiled file in a path of a run."""
    text = line.text
    for name in VARIANT_NAME.findall(text)[:4]:
        if f"build/{name}" in text or f"build\\{name}" in text or "variant '" in text:
            _variant(name, line, notebook)
    for build in _BUILD_ID.finditer(text):
        _add("build_id", build[2], line, notebook)
        stem = build[1].removesuffix("_cuda").removesuffix("_ops")
        if stem in ("flash_attn2", "flash_attn3", "flash_attn4") and "kernel.repo" not in {
            s.path for s in notebook.sightings[-40:]
        }:
            _add("repo", f"kernels-community/{stem.replace('_', '-')}", line, notebook, Source.SAID)


def _variant(name: str, line: Line, notebook: Notebook) -> None:
    parts = variant(name)
    if parts is None:
        return
    _add("variant", name, line, notebook)
    _add("framework", parts.framework, line, notebook)
    _add("backend", parts.backend, line, notebook)
    if parts.backend == "cuda" and parts.backend_version:
        _add("cuda", parts.backend_version, line, notebook)
    if parts.os:
        notebook.add("system.os", parts.os, line, KIND, Source.RUN)
        notebook.add("system.machine", parts.machine, line, KIND, Source.RUN)
    if parts.framework == "torch":  # loaded only under the very torch it was built for
        notebook.add("torch.version", parts.framework_version, line, KIND, Source.RUN)
        if parts.backend == "cuda":
            notebook.add("torch.cuda", parts.backend_version, line, KIND, Source.RUN)


def _listing(listed: re.Match[str], line: Line, notebook: Notebook) -> bool:
    """A line of `kernels versions` or of the trace of a failed search."""
    notebook.saw("kernels variants")
    reason = (listed[2] or "").strip()
    notebook.build(listed[1], not reason, reason, line)
    return True


def _messages(line: Line, notebook: Notebook) -> None:
    text = line.text
    if none := _NO_VARIANT.search(text):
        _reference(none[1], {"revision": none[2]} if none[2] else {}, line, notebook, Source.RUN)
        notebook.saw("kernels variants")
    if lacks := _LACKS.search(text):
        for name in re.findall(r"[\w.-]+", lacks[1]):
            _wanted(name, line, notebook)
    if archs := _ARCHS.search(text):
        _add("archs", tuple(re.findall(r"\d{1,2}\.\d[af]?(?:\+PTX)?", archs[1])), line, notebook)
    if told := _UNSUPPORTED.search(text):
        _add("repo", f"kernels-community/{told[1]}", line, notebook, Source.SAID)
        _variant(told[2], line, notebook)
    if depends := _DEPENDS.search(text):
        _add("repo", f"kernels-community/{depends[1].replace('_', '-')}", line, notebook, Source.SAID)
        _add("python_depends", (depends[2],), line, notebook)
        notebook.add(f"packages.{depends[2]}.version", None, line, KIND, Source.RUN)
    if instead := _INSTEAD.search(text):
        _add("repo", instead[1], line, notebook)
        notebook.add("packages.flash-attn.version", None, line, KIND, Source.RUN)
    if untrusted := _UNTRUSTED.search(text):
        _add("repo", untrusted[1], line, notebook)
        _add("trusted_publisher", False, line, notebook)


def _wanted(name: str, line: Line, notebook: Notebook) -> None:
    """The folder that older releases ask for is this machine's, spelled out."""
    parts = variant(name)
    if parts is None or parts.framework != "torch":
        return
    notebook.add("torch.version", parts.framework_version, line, KIND, Source.RUN)
    notebook.add("torch.backend", parts.backend, line, KIND, Source.RUN)
    if parts.backend == "cuda":
        notebook.add("torch.cuda", parts.backend_version, line, KIND, Source.RUN)
    notebook.add("system.machine", parts.machine, line, KIND, Source.RUN)
    notebook.add("system.os", parts.os, line, KIND, Source.RUN)


def info(line: Line, notebook: Notebook) -> bool:
    """A line of `kernels info` ("Repository: …", "Revision: …", "Backends: …")."""
    key, colon, value = line.text.partition(": ")
    key, value = key.strip().strip('"').replace("_", " ").lower(), value.strip().rstrip(",").strip('"')
    key = _JSON_KEYS.get(key, key)
    began = notebook.context.get("kernels_info", -99)
    if key == "repository" and "/" in value and " " not in value and colon:
        notebook.context["kernels_info"] = line.number
        notebook.saw("kernels info")
        _add("repo", value, line, notebook, Source.DUMP)
        return True
    if not colon or not 0 < line.number - began < 12 or value in ("-", "null", "[]", "["):
        return False
    if key == "revision":
        _add("revision", value, line, notebook, Source.DUMP)
    elif key == "version" and value.isdigit():
        _add("version", int(value), line, notebook, Source.DUMP)
    elif key == "minimum kernels version":
        _add("minver", value, line, notebook, Source.DUMP)
    elif key == "python dependencies":
        names = [part.strip(' []"') for part in value.split(",")]
        _add("python_depends", tuple(filter(None, names)), line, notebook, Source.DUMP)
    else:
        return False
    return True


_JSON_KEYS = {
    "repo id": "repository", "kernels minver": "minimum kernels version", "python depends": "python dependencies",
}  # fmt: skip

CUES = ("kernels-community", "get_kernel", "has_kernel", "load_kernel", "layerrepository", "funcrepository",
        "models--", "kernels--",
        "-linux", "-windows", "-darwin", "torch-cuda", "torch-cpu", "torch-universal", "torch-xpu", "torch-rocm",
        "torch-metal", ".abi3.so",
        "build variant", "snapshot", "declares archs", "architectures of the build", "python dependency",
        "trusted publisher", "/kernels/", "redhatai/",
        "-gnu.so", "✅", "does not have")  # fmt: skip
RECOGNISER = Recogniser("hub kernels", CUES, read, exclusive=True)
INFO = Recogniser(
    "kernels info",
    (
        "repository:",
        "revision:",
        "version:",
        "dependencies:",
        '"repo_id"',
        '"revision"',
        '"version"',
        '"kernels_minver"',
        '"python_depends"',
    ),
    info,
)
