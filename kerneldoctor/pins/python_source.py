"""Finds pins in Python source by its syntax tree. Nothing is imported or run; computed values are not guessed."""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from .lines import FLAG, flag_pins
from .model import Pin, Spot, Trust, attention_pin, kernel_pin, not_read, shorten

OLD_KEY = "use_flash_attention_2"  # a switch of transformers before 4.53, for attn_implementation="flash_attention_2"
KEYS = frozenset({"attn_implementation", "_attn_implementation", "_attn_implementation_internal"})
KERNEL_CALLS = frozenset(
    {
        "get_kernel", "has_kernel", "install_kernel", "get_locked_kernel", "load_kernel", "LayerRepository",
        "FuncRepository", "LockedLayerRepository", "LockedFuncRepository",
    }
)  # fmt: skip
_LOCKED = frozenset({"get_locked_kernel", "load_kernel", "LockedLayerRepository", "LockedFuncRepository"})
_SHELL_CALLS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system"})
_REPO = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
# Where a name is followed at once, so that what is allowed stands beside it.
_LOADING_CALLS = frozenset({"from_pretrained", "from_config", "set_attn_implementation"})
_FLAGS = frozenset({"--attn_implementation", "--attn-implementation"})
_COMPUTED = "the value is computed"


def python_pins(file: str, source: str) -> list[Pin]:
    """The pins of one file, by line. Raises SyntaxError for what is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" in somebody's string is none of our business
        try:
            tree = ast.parse(source)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(f"{type(error).__name__}: {error}") from None
    return sorted(_Reader(file, tree, source.splitlines()).read(), key=lambda pin: pin.line)


class _Reader:
    """One syntax tree."""

    def __init__(self, file: str, tree: ast.AST, lines: Sequence[str]) -> None:
        self._file, self._lines = file, lines
        self._nodes = list(ast.walk(tree))
        self._constants = _constants(self._nodes)
        self._aliases = _aliases(self._nodes)

    def read(self) -> Iterator[Pin]:
        for node in self._nodes:
            match node:
                case ast.Call():
                    yield from self._call(node)
                case ast.Dict():
                    for key, value in zip(node.keys, node.values, strict=True):
                        if isinstance(key, ast.Constant) and key.value in KEYS:
                            yield from self._attention(value)
                        elif isinstance(key, ast.Constant) and key.value == OLD_KEY:
                            yield from self._old_switch(value)
                case ast.Assign(targets=targets, value=value) if any(map(_is_key, targets)):
                    yield from self._attention(value)
                case ast.AnnAssign(target=target, value=ast.expr() as value) if _is_key(target):
                    yield from self._attention(value)
                case ast.arguments():
                    for name, default in _defaults(node):
                        if name in KEYS:
                            yield from self._attention(default)
                case ast.List(elts=items) | ast.Tuple(elts=items):
                    yield from self._words(items)

    def _spot(self, node: ast.expr, place: str) -> Spot:
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        return Spot(self._file, node.lineno, place, shorten(line))

    def _call(self, call: ast.Call) -> Iterator[Pin]:
        name = _called(call.func)
        name = self._aliases.get(name, name)
        trust = _trust(call, "allow_all_kernels") if name in _LOADING_CALLS and not _is_config(call.func) else "unknown"
        for keyword in call.keywords:
            if keyword.arg in KEYS:
                yield from self._attention(keyword.value, trust)
            elif keyword.arg == OLD_KEY:
                yield from self._old_switch(keyword.value)
        if name == "set_attn_implementation" and call.args:
            yield from self._attention(call.args[0], trust)
        elif name == "add_argument" and any(isinstance(a, ast.Constant) and a.value in _FLAGS for a in call.args):
            for keyword in call.keywords:
                if keyword.arg == "default":
                    yield from self._attention(keyword.value)
        elif name in _SHELL_CALLS:
            for argument in call.args[:1]:
                yield from self._command(argument)
        elif name in KERNEL_CALLS:
            yield from self._kernel(name, call)
        elif name == "KernelConfig":
            yield from self._mapping(call)

    def _old_switch(self, node: ast.expr) -> Iterator[Pin]:
        spot = self._spot(node, OLD_KEY)
        pin = None
        if not isinstance(node, ast.Constant):
            pin = not_read(spot, _COMPUTED)
        elif node.value is True:
            pin = attention_pin(spot, "flash_attention_2")
        if pin is not None:
            yield pin

    def _attention(self, node: ast.expr, trust: Trust = "unknown") -> Iterator[Pin]:
        """The pins of a value; one for each branch of a choice, one for each part of a model."""
        spot = self._spot(node, "attn_implementation")
        match node:
            case ast.IfExp(body=body, orelse=other):
                choices: list[ast.expr] = [body, other]
            case ast.BoolOp(values=values):
                choices = values
            case ast.Dict(values=values):
                choices = values
            case ast.Constant(value=value) if not isinstance(value, str):
                return
            case _:
                text = self._string(node)
                pin = attention_pin(spot, text) if text is not None else not_read(spot, _COMPUTED)
                if pin is not None:
                    yield replace(pin, trust=trust)
                return
        for choice in choices:
            yield from self._attention(choice, trust)

    def _kernel(self, name: str, call: ast.Call) -> Iterator[Pin]:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        repo_node = call.args[0] if call.args else given.get("repo_id")
        if repo_node is None:
            return
        spot, repo = self._spot(repo_node, name), self._string(repo_node)
        certain = name in self._aliases.values() or name[0].isupper()
        if repo is None or not _REPO.fullmatch(repo):
            if certain:  # else some other library's get_kernel
                yield not_read(spot, _COMPUTED if repo is None else f"{repo[:60]!r} is no owner/name")
            return
        if name in _LOCKED:
            yield replace(kernel_pin(spot, repo), kind="locked", why="kernels.lock says the commit")
            return
        positional = len(call.args) > 1
        revision = given.get("revision") or (call.args[1] if positional else None)
        pin = self._revised(spot, repo, revision, given.get("version"))
        pin = replace(pin, reader="kernels", trust=_trust(call, "trust_remote_code", repo))
        yield replace(pin, call="positional") if positional and not pin.call else pin

    def _revised(self, spot: Spot, repo: str, revision: ast.expr | None, version: ast.expr | None) -> Pin:
        named = version is not None and not _is_none(version)
        if isinstance(revision, ast.expr) and not _is_none(revision):
            text = self._string(revision)
            pin = kernel_pin(spot, repo, text) if text is not None else not_read(spot, "the revision is computed")
            certain = isinstance(version, ast.Constant) and text is not None
            return replace(pin, call="both") if named and certain else pin
        if not named:
            return kernel_pin(spot, repo)
        match version:
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return kernel_pin(spot, repo, f"v{number}")
            case ast.Constant(value=value):
                why = f"version={str(value)[:40]!r} is no number: kernels since 0.14 takes numbers only"
                return replace(not_read(spot, why), call="text", value=str(value)[:40])
        return not_read(spot, "the version is computed")

    def _mapping(self, call: ast.Call) -> Iterator[Pin]:
        """transformers' KernelConfig: {"RMSNorm": "owner/name:LayerName"}, or a table of these by device."""
        roots = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "kernel_mapping")]
        for root in roots:
            for node in ast.walk(root):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    repo, _, layer = node.value.partition(":")
                    if layer and _REPO.fullmatch(repo.partition("@")[0]):
                        yield replace(kernel_pin(self._spot(node, "KernelConfig"), repo), reader="transformers")

    def _words(self, items: Sequence[ast.expr]) -> Iterator[Pin]:
        """A command as a list of words: ["--attn_implementation", "sdpa"]."""
        for item, following in zip_longest(items, items[1:]):
            if not isinstance(item, ast.Constant) or not isinstance(item.value, str):
                continue
            flag, equals, value = item.value.partition("=")
            if flag not in _FLAGS:
                continue
            spot = self._spot(item, flag)
            text = value if equals else self._string(following) if following is not None else ""
            pin = attention_pin(spot, text) if text is not None else not_read(spot, _COMPUTED)
            if pin is not None:
                yield pin

    def _command(self, node: ast.expr) -> Iterator[Pin]:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and FLAG.search(inner.value):
                spot = self._spot(inner, "")
                yield from flag_pins(spot, inner.value)

    def _string(self, node: ast.expr) -> str | None:
        """The text that an expression certainly has, or None."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self._constants.get(name)
            case ast.BinOp(left=ast.Constant(value=str(left)), op=ast.Add(), right=ast.Constant(value=str(right))):
                return left + right
        return None


def _trust(call: ast.Call, keyword: str, repo: str = "") -> Trust:
    """What a call says of kernels whose publisher is not trusted: all, a list of repositories, or nothing."""
    if any(each.arg is None for each in call.keywords):  # **more
        return "unknown"
    match next((each.value for each in call.keywords if each.arg == keyword), None):
        case None:
            return "withheld"
        case ast.Constant(value=value):
            return "given" if value is True else "withheld"
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            names = [item.value if isinstance(item, ast.Constant) else None for item in items]
            return "given" if repo in names else "unknown" if None in names else "withheld"
    return "unknown"


def _is_config(function: ast.expr) -> bool:
    """AutoConfig.from_pretrained loads no kernel: what is allowed is said where the model is made."""
    return isinstance(function, ast.Attribute) and _called(function.value).endswith("Config")


def _constants(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Names that are bound once in the whole file, and to a text."""
    bound: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound[name] += 1
            case ast.alias(name=name, asname=other):
                bound[other or name] += 1
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
            ):
                texts[name] = text
    return {name: text for name, text in texts.items() if bound[name] == 1}


def _aliases(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """What names stand for that were imported from kernels."""
    return {
        alias.asname or alias.name: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "kernels"
        for alias in node.names
    }


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_key(target: ast.expr) -> bool:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name in KEYS
    return False


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    named = [*arguments.posonlyargs, *arguments.args]
    with_default = named[len(named) - len(arguments.defaults) :]
    yield from ((a.arg, d) for a, d in zip(with_default, arguments.defaults, strict=True))
    yield from ((a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None)
