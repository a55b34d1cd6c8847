"""Every error that kerneldoctor raises on purpose, in one tree.

    KerneldoctorError
    ├── UsageError          the user asked for something that cannot be done as asked: exit code 2
    │   ├── RuleError       a rule file is broken (names file and line)
    │   └── EnvironmentFileError   a saved Environment or capture cannot be read
    ├── UndeterminedError   the question cannot be answered here and now: exit code 3
    │   └── HubError        the Hub did not answer, or answered with something unusable
    └── ProbeError          one probe could not look; its facts become unknown, nothing stops

Anything else that escapes is our own bug: exit code 4.
"""

from __future__ import annotations


class KerneldoctorError(Exception):
    """Base of every expected error. `str(error)` is one clear line: what, where, and how to mend it."""


class UsageError(KerneldoctorError):
    """Wrong use: a bad option value, file or reference."""


class RuleError(UsageError):
    """A rule file that cannot be used. The message starts with `file:line:`."""


class EnvironmentFileError(UsageError):
    """A saved Environment or capture that is missing, truncated, not ours, or of a newer schema."""


class UndeterminedError(KerneldoctorError):
    """The answer depends on something that could not be reached."""


class HubError(UndeterminedError):
    """The Hub gave no usable answer."""


class ProbeError(KerneldoctorError):
    """A probe could not look. The message becomes the reason of its unknown facts."""
