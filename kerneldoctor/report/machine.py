"""The machine in a few lines, from facts alone. It says what is unknown and judges nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ..environment import Deep, Environment, Fact, FlashAttention, Gpu
from .text import gib, value_text

_NEIGHBOURS = ("transformers", "kernels", "huggingface-hub", "trl", "accelerate", "triton")


def machine_lines(environment: Environment) -> list[tuple[str, str]]:
    """Label and text a line, such as ("GPU", "8 x NVIDIA H100 80GB HBM3 (9.0, 80 GiB)")."""
    lines = [
        ("system", _system(environment)),
        ("python", _python(environment)),
        ("GPU", _gpus(environment)),
        ("driver", _driver(environment)),
        ("torch", _torch(environment)),
        ("flash-attn", _flash_attention(environment)),
        ("packages", _packages(environment)),
        ("Hub", _hub(environment)),
    ]
    return [*lines, ("tried", _deep(environment.deep))] if environment.deep != Deep() else lines


def _deep(deep: Deep) -> str:
    """What an import showed, for `scan --deep`."""
    tried = (
        ("import torch", deep.torch_imports),
        ("CUDA", deep.cuda_available),
        ("one GPU kernel", deep.gpu_kernel_runs),
        ("import flash_attn", deep.flash_attn_imports),
        ("import flash_attn_interface", deep.flash_attn_3_imports),
        ("import flash_attn.cute", deep.flash_attn_4_imports),
    )
    words = {True: "works", False: "fails"}
    return _join(f"{name} {words[bool(f.value)] if f.is_known else '?'}" for name, f in tried if not f.is_absent)


def _say(fact: Fact[str], otherwise: str = "none") -> str:
    """A text fact; "?" where unknown, because the line's main fact already gives the reason."""
    return str(fact.value) if fact.is_known else otherwise if fact.is_absent else "?"


def _join(parts: Iterator[str]) -> str:
    return ", ".join(part for part in parts if part)


def _system(environment: Environment) -> str:
    system = environment.system

    def parts() -> Iterator[str]:
        if system.distribution.is_known:
            yield str(system.distribution.value)
        else:
            yield str(system.os.value) if system.os.is_known else f"unknown ({system.os.note})"
        if system.machine.is_known:
            yield str(system.machine.value)
        if system.libc.is_known:
            yield f"{system.libc.value} {_say(system.libc_version)}"
        if system.wsl.value:
            yield "WSL"
        for fact in (system.container, system.scheduler, system.notebook):
            if fact.is_known:
                yield str(fact.value)

    return _join(parts())


def _python(environment: Environment) -> str:
    python = environment.python

    def parts() -> Iterator[str]:
        free = " free-threaded" if python.free_threaded.value else ""
        yield f"{python.version.value}{free}" if python.version.is_known else f"unknown ({python.version.note})"
        if python.environment_kind.is_known:
            yield str(python.environment_kind.value)
        if python.executable.is_known:
            yield str(python.executable.value)

    return _join(parts())


def _gpus(environment: Environment) -> str:
    gpus = environment.gpus
    if gpus.is_unknown:
        return f"unknown ({gpus.note})"
    if gpus.is_absent or not gpus.value:
        return "none found"
    counts: dict[str, int] = {}
    for gpu in gpus.value:
        text = _gpu(gpu)
        counts[text] = counts.get(text, 0) + 1
    listed = "; ".join(text if count == 1 else f"{count} x {text}" for text, count in counts.items())
    return listed + _visibility(environment, len(gpus.value))


def _gpu(gpu: Gpu) -> str:
    details = [fact for fact in (_say(gpu.compute_capability, ""),) if fact]
    if gpu.memory_bytes.is_known and gpu.memory_bytes.value:
        details.append(gib(gpu.memory_bytes.value))
    if gpu.mig.value:
        details.append(f"MIG on, {value_text(gpu.mig_devices.value)} instances")
    name = str(gpu.name.value) if gpu.name.is_known else "GPU of unknown name"
    return f"{name} ({', '.join(details)})" if details else name


def _visibility(environment: Environment, total: int) -> str:
    count = environment.visibility.count
    if not count.is_known or count.value == total:
        return ""
    return f"; {count.value} of {total} visible (CUDA_VISIBLE_DEVICES={_say(environment.visibility.raw, '')})"


def _driver(environment: Environment) -> str:
    driver = environment.driver
    if driver.version.is_unknown:
        return f"unknown ({driver.version.note})"
    if driver.version.is_absent:
        return "no NVIDIA driver found"
    offers = f"CUDA unknown ({driver.cuda.note})" if driver.cuda.is_unknown else f"up to CUDA {_say(driver.cuda)}"
    return f"{driver.version.value}, {offers}"


def _torch(environment: Environment) -> str:
    torch = environment.torch
    if torch.version.is_unknown:
        return f"unknown ({torch.version.note})"
    if torch.version.is_absent:
        return "not installed"

    def parts() -> Iterator[str]:
        yield str(torch.version.value)
        built = {"cuda": torch.cuda, "rocm": torch.hip, "xpu": torch.xpu}.get(torch.backend.value or "")
        if built is not None:
            yield f"built for {'CUDA' if built is torch.cuda else torch.backend.value} {_say(built)}"
        elif torch.backend.value == "cpu":
            yield "CPU only"
        if torch.archs.is_known and torch.archs.value:
            yield f"GPU code for {' '.join(torch.archs.value)}"
        elif torch.archs.is_unknown and torch.backend.value != "cpu":
            yield f"GPU code unknown ({torch.archs.note})"

    return _join(parts())


def _flash_attention(environment: Environment) -> str:
    generations = {
        "": environment.flash_attn,
        "FA3 ": environment.flash_attn_3,
        "FA4 ": environment.flash_attn_4,
    }
    shown = [prefix + text for prefix, part in generations.items() if (text := _generation(part))]
    if shown:
        return ", ".join(shown)
    reasons = [part.version.note for part in generations.values() if part.version.is_unknown]
    return f"unknown ({reasons[0]})" if reasons else "not installed"


def _generation(part: FlashAttention) -> str:
    kind = str(part.kind.value).replace("_", " ") if part.kind.is_known else ""
    version = str(part.version.value) if part.version.is_known else ""
    odd = f" ({kind})" if kind not in ("", "complete") else ""
    return (version or ("no version" if odd else "")) + odd


def _packages(environment: Environment) -> str:
    packages = environment.packages
    if not packages.complete and not packages.items:
        return f"unknown ({packages.note})"
    found = [f"{name} {_say(packages.get(name).version)}" for name in _NEIGHBOURS if name in packages.items]
    text = ", ".join(found) or "none of transformers, kernels, huggingface-hub, trl"
    return text if packages.complete else f"{text} (listing not complete: {packages.note})"


def _hub(environment: Environment) -> str:
    hub = environment.huggingface
    if hub.offline.is_unknown and hub.endpoint.is_unknown:
        return f"unknown ({hub.endpoint.note})"

    def parts() -> Iterator[str]:
        yield "offline" if hub.offline.value else f"offline switch {'not set' if hub.offline.is_known else 'unknown'}"
        if hub.endpoint.is_known and hub.endpoint.value != "https://huggingface.co":
            yield f"endpoint {hub.endpoint.value}"
        if hub.token.is_known:
            yield "token set" if hub.token.value else "no token"
        if hub.telemetry_disabled.value:
            yield f"telemetry off ({_say(hub.telemetry_variable)})"
        if hub.use_hub_kernels.is_known and not hub.use_hub_kernels.value:
            yield "Hub kernels switched off"
        if hub.cached_kernels.is_known and hub.cached_kernels.value:
            yield f"{len(hub.cached_kernels.value)} kernels cached"
        if hub.cache_writable.is_known and not hub.cache_writable.value:
            yield "cache not writable"
        elif hub.cache_free_bytes.is_known and hub.cache_free_bytes.value is not None:
            yield f"{gib(hub.cache_free_bytes.value)} free"
        if hub.proxies.is_known and hub.proxies.value:
            yield f"proxy ({', '.join(hub.proxies.value)})"

    return _join(parts())
