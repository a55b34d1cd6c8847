"""Reads what a released transformers, kernels or huggingface_hub wheel does from its sources and its METADATA.

Nothing is imported or run. What cannot be recognised raises `Unreadable`, so that a release which moved things is
looked at by a person and never guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from archives import Unreadable, Wheel

FLASH_NAMES = ("flash_attention_2", "flash_attention_3", "flash_attention_4")


def read_transformers(wheel: Wheel) -> dict[str, Any]:
    """One row of transformers.toml."""
    utilities = wheel.tree("transformers/utils/import_utils.py")
    if _function(utilities, "is_kernels_available") is None:
        raise Unreadable(f"transformers {wheel.version}: no is_kernels_available in utils/import_utils.py")
    repos, versions = _fallback_repos(wheel), _attention_versions(wheel)
    row: dict[str, Any] = {
        "version": wheel.version,
        "python": wheel.python,
        "huggingface_hub": wheel.requires("huggingface-hub"),
        "kernels": _gate(utilities),
    }
    for extra in ("kernels", "hub-kernels"):
        if (specifier := wheel.requires("kernels", extra)) is not None:
            row |= {"kernels_extra": extra, "kernels_extra_range": specifier}
            break
    row |= {"version_rule": versions["rule"]} | {k: versions[k] for k in ("default_version",) if k in versions}
    row["import_demands"] = _import_demands(wheel)
    row["allow_all_kernels"] = _allow_all_kernels(wheel)
    for name in FLASH_NAMES:
        if name in repos:
            row[name] = _default(repos[name], versions)
    row["versions"] = versions["by_repo"]
    row["source"] = f"https://pypi.org/project/transformers/{wheel.version}/ (METADATA and sources)"
    return row


def read_kernels(wheel: Wheel) -> dict[str, Any]:
    """One row of kernels.toml."""
    texts = set(wheel.strings())
    names = {n.attr for n in wheel.nodes(ast.Attribute)} | {n.name for n in wheel.nodes(ast.FunctionDef)}
    get_kernel = next((f for f in wheel.nodes(ast.FunctionDef) if f.name == "get_kernel"), None)
    if get_kernel is None:
        raise Unreadable(f"kernels {wheel.version}: no function get_kernel")
    return {
        "version": wheel.version,
        "python": wheel.python,
        "huggingface_hub": wheel.requires("huggingface-hub"),
        "repo_type": _repo_type(wheel),
        "versions": _version_argument(get_kernel),
        "version_required": any(t.startswith("A kernel version or revision must be specified") for t in texts),
        "layer_version": any(t.startswith("Either a revision or a version must be specified") for t in texts),
        "layer_version_required": "Either a revision or a version must be specified." in texts,
        "refuses_rocm_layers": any(map(_refuses_rocm, wheel.nodes(ast.ClassDef))),
        "stable_abi": any("torch-stable-abi" in t for t in texts),
        "noarch": "build_variant_noarch" in names or "noarch_backend_name" in _assigned(wheel),
        "lists_builds_online": any(_called(call) == "list_repo_tree" for call in wheel.nodes(ast.Call, ("/cli/",))),
        "offline": "HF_HUB_OFFLINE" in names,
        "telemetry_fault": any(map(_passes_empty_agent, wheel.nodes(ast.FunctionDef))),
        "trust": _trust(texts, get_kernel),
        "metadata_required": "read_from_file" in names or "Metadata" in _imports(wheel, "kernels._rust"),
        "minver": _minver(names),
        "arch_check": _has(get_kernel, "check_arch"),
        "free_threaded_refused": any("free-threaded Python <3.15" in t for t in texts),
        "local_kernels": "LOCAL_KERNELS" in texts,
        "source": f"https://pypi.org/project/kernels/{wheel.version}/ (METADATA and sources)",
    }


def read_huggingface_hub(wheel: Wheel) -> dict[str, Any]:
    """One row of huggingface_hub.toml."""
    constants = wheel.tree("huggingface_hub/constants.py")
    if _assignment(constants, "REPO_TYPES") is None:
        raise Unreadable(f"huggingface_hub {wheel.version}: no REPO_TYPES in constants.py")
    return {
        "version": wheel.version,
        "python": wheel.python,
        "kernel_repos": _assignment(constants, "REPO_TYPES_WITH_KERNEL") is not None,
        "refuses_partial_snapshots": any(n.name == "IncompleteSnapshotError" for n in wheel.nodes(ast.ClassDef)),
        "source": f"https://pypi.org/project/huggingface-hub/{wheel.version}/ (METADATA and sources)",
    }


READERS: Mapping[str, Callable[[Wheel], dict[str, Any]]] = {
    "transformers": read_transformers,
    "kernels": read_kernels,
    "huggingface_hub": read_huggingface_hub,
}


def _gate(utilities: ast.Module) -> str:
    """The kernels range that is_kernels_available checks at run time; "" where any installed release will do."""
    low, high = (_text(_assignment(utilities, f"KERNELS_{name}_VERSION")) for name in ("MIN", "MAX"))
    return ",".join(part for part in (f">={low}" if low else "", f"<{high}" if high else "") if part)


def _import_demands(wheel: Wheel) -> list[str]:
    """What the layer mapping that is built while transformers is imported asks of kernels, behind no version gate.

    `no_version`: a LayerRepository without version and revision; `version`: one with a version; `rocm`: a layer for
    ROCm. Releases that build the mapping later, inside a function, ask for nothing.
    """
    demands: set[str] = set()
    for node in _at_import(wheel.tree("transformers/integrations/hub_kernels.py")):
        if isinstance(node, ast.Constant) and node.value == "rocm":
            demands.add("rocm")
        if isinstance(node, ast.Call) and _called(node) == "LayerRepository":
            given = {keyword.arg for keyword in node.keywords}
            if not given & {"version", "revision"}:
                demands.add("no_version")
            if "version" in given:
                demands.add("version")
    return sorted(demands)


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a module is imported: function bodies and what stands behind the version gate left out."""
    for child in ast.iter_child_nodes(tree):
        gated = isinstance(child, ast.If) and "is_kernels_available" in ast.dump(child.test)
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not gated:
            yield child
            yield from _at_import(child)


def _fallback_repos(wheel: Wheel) -> dict[str, dict[str, str]]:
    """What each flash_attention_N is replaced by where its package is missing: `repo`, and `rocm` where it differs."""
    repos: dict[str, dict[str, str]] = {}
    for name in ("modeling_flash_attention_utils", "modeling_utils"):
        tree = wheel.tree(f"transformers/{name}.py")
        mapping = _assignment(tree, "FLASH_ATTN_KERNEL_FALLBACK")
        if isinstance(mapping, ast.Dict):
            return {str(_text(k)): _repo(v) for k, v in zip(mapping.keys, mapping.values, strict=True)}
        # 4.56 and 4.57 have no mapping: the names stand in the method that picks the implementation.
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and _target(node) == "applicable_attn_implementation":
                repo = _text(node.value) or ""
                if repo.startswith("kernels-community/"):
                    repos["flash_attention_3" if repo.endswith("3") else "flash_attention_2"] = {"repo": repo}
    return repos


def _repo(value: ast.expr) -> dict[str, str]:
    if isinstance(value, ast.IfExp) and "is_rocm_platform" in ast.dump(value.test):
        return {"repo": str(_text(value.orelse)), "rocm": str(_text(value.body))}
    repo = _text(value)
    if repo is None:
        raise Unreadable(f"a fallback that is neither a name nor a choice by ROCm: {ast.unparse(value)}")
    return {"repo": repo}


def _attention_versions(wheel: Wheel) -> dict[str, Any]:
    """How the major version of an attention kernel is chosen when its name carries no revision.

    `rule`: "main" (none is passed), "name" (by the generation in the repository's name) or "repo" (by repository).
    """
    utilities = wheel.tree("transformers/modeling_flash_attention_utils.py")
    by_repo = _assignment(utilities, "FLASH_ATTN_KERNEL_VERSIONS")
    if isinstance(by_repo, ast.Dict):
        rows = [{"repo": str(_text(k)), **_version(v)} for k, v in zip(by_repo.keys, by_repo.values, strict=True)]
        return {"rule": "repo", "default_version": 1, "by_repo": rows}
    hub = wheel.tree("transformers/integrations/hub_kernels.py")
    by_name = _assignment(hub, "_FLASH_ATTN_KERNEL_VERSION_MAPPING")
    if isinstance(by_name, ast.Dict):
        rows = [{"generation": _number(k), **_version(v)} for k, v in zip(by_name.keys, by_name.values, strict=True)]
        return {"rule": "name", "default_version": 1, "by_repo": rows}
    loader = _function(hub, "load_and_register_attn_kernel") or _function(hub, "load_and_register_kernel")
    for node in ast.walk(loader) if loader else ():
        if isinstance(node, ast.Assign) and _target(node) == "version" and isinstance(node.value, ast.IfExp):
            beta = {"generation": 4, "version": _number(node.value.body)}
            return {"rule": "name", "default_version": _number(node.value.orelse), "by_repo": [beta]}
    return {"rule": "main", "by_repo": []}


def _version(value: ast.expr) -> dict[str, Any]:
    """`version`, and where it depends on torch, `torch` (the release it needs) and `version_before`."""
    if isinstance(value, ast.IfExp) and isinstance(value.test, ast.Call):
        if _called(value.test) != "is_torch_greater_or_equal":
            raise Unreadable(f"a version that depends on more than torch: {ast.unparse(value)}")
        torch = str(_text(value.test.args[0]))
        return {"version": _number(value.body), "torch": torch, "version_before": _number(value.orelse)}
    return {"version": _number(value)}


def _default(repo: Mapping[str, str], versions: Mapping[str, Any]) -> dict[str, Any]:
    row = {"repo": repo["repo"], **_chosen(repo["repo"], versions)}
    if "rocm" in repo:
        row["rocm_repo"] = repo["rocm"]
        if chosen := _chosen(repo["rocm"], versions):
            row["rocm_version"] = chosen["version"]
    return row


def _chosen(repo: str, versions: Mapping[str, Any]) -> dict[str, Any]:
    for row in versions["by_repo"]:
        # `is_flash_attention_requested` looks for "flash" and then the generation anywhere behind it.
        if row.get("repo") == repo or ("generation" in row and re.match(rf".*flash.*{row['generation']}", repo)):
            return {key: value for key, value in row.items() if key not in ("repo", "generation")}
    return {"version": versions["default_version"]} if "default_version" in versions else {}


def _repo_type(wheel: Wheel) -> str:
    for call in wheel.nodes(ast.Call, skip=("/cli/",)):
        if any(k.arg == "repo_type" and _text(k.value) == "kernel" for k in call.keywords):
            return "kernel"
    return "model"


def _refuses_rocm(kind: ast.ClassDef) -> bool:
    """Whether a class Device raises for "rocm": it names the devices that it knows, and raises for others."""
    texts = {n.value for n in ast.walk(kind) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return kind.name == "Device" and any(t.startswith("Unknown device type") for t in texts) and "rocm" not in texts


def _version_argument(get_kernel: ast.FunctionDef) -> str:
    """What `get_kernel(version=…)` takes: "none", "tags" (a specifier over git tags), "branches" (a number), "both"."""
    arguments = [*get_kernel.args.args, *get_kernel.args.kwonlyargs]
    annotation = next((ast.unparse(a.annotation) for a in arguments if a.arg == "version" and a.annotation), "")
    if not annotation:
        return "none"
    numbers, texts = "int" in annotation, "str" in annotation
    return "both" if numbers and texts else "branches" if numbers else "tags"


def _passes_empty_agent(function: ast.FunctionDef) -> bool:
    """Whether a function hands the Hub client a user agent that starts out as "" and may stay so."""
    empty = {_target(n) for n in ast.walk(function) if isinstance(n, ast.Assign) and _text(n.value) == ""}
    return any(
        keyword.arg == "user_agent" and isinstance(keyword.value, ast.Name) and keyword.value.id in empty
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and _called(call) == "HfApi"
        for keyword in call.keywords
    )


def _allow_all_kernels(wheel: Wheel) -> str:
    """What from_pretrained(allow_all_kernels=True) does: "none" (it is not known), "own" (it opens transformers' own
    gate, which lets only kernels-community through), "passed" (it is handed to kernels as trust_remote_code).
    """
    get_kernel = _function(wheel.tree("transformers/integrations/hub_kernels.py"), "get_kernel")
    if get_kernel is None or not _has(get_kernel, "allow_all_kernels"):
        return "none"
    passes = "trust_remote_code" in {node.arg for node in ast.walk(get_kernel) if isinstance(node, ast.keyword)}
    return "passed" if passes else "own"


def _trust(texts: set[str], get_kernel: ast.FunctionDef) -> str:
    """Who may publish: "none" (anybody), "list" (a fixed list), "flag" (organisations that the Hub marks)."""
    if "trustedKernelPublisher" in texts:
        return "flag"
    return "list" if _has(get_kernel, "trust_remote_code") else "none"


def _minver(names: set[str]) -> str:
    """What happens below a kernel's own minimum: "ignored", "warning" or "error"."""
    if "_warn_if_below_minver" in names:
        return "warning"
    return "error" if "kernels_minver" in names else "ignored"


def _has(function: ast.FunctionDef, argument: str) -> bool:
    return argument in {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}


def _assigned(wheel: Wheel) -> set[str]:
    return {_target(node) for node in wheel.nodes(ast.Assign)}


def _imports(wheel: Wheel, module: str) -> set[str]:
    return {alias.name for node in wheel.nodes(ast.ImportFrom) if node.module == module for alias in node.names}


def _function(tree: ast.AST, name: str) -> ast.FunctionDef | None:
    return next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name), None)


def _assignment(tree: ast.Module, name: str) -> ast.expr | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and _target(node) == name:
            return node.value
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return node.value
    return None


def _target(node: ast.Assign) -> str:
    return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""


def _called(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _number(node: ast.expr | None) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise Unreadable(f"not a number: {ast.unparse(node) if node else None}")
