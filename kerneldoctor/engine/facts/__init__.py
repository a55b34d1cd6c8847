"""Derived facts: pure functions over recorded facts and tables, one module a family. Importing this registers them."""

from . import attention, driver, stack, torch

__all__ = ["attention", "driver", "stack", "torch"]
