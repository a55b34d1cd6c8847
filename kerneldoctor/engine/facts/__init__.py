"""Derived facts: pure functions over recorded facts and tables, one module a family. Importing this registers them."""

from . import (
    attention,
    attention_wheels,
    driver,
    extensions,
    flash_default,
    hub_load,
    hub_range,
    kernel_builds,
    requirements,
    stack,
    symbols,
    toolchain,
    torch,
    torch_install,
    torch_libraries,
    triton,
)

__all__ = [
    "attention",
    "attention_wheels",
    "driver",
    "extensions",
    "flash_default",
    "hub_load",
    "hub_range",
    "kernel_builds",
    "requirements",
    "stack",
    "symbols",
    "toolchain",
    "torch",
    "torch_install",
    "torch_libraries",
    "triton",
]
