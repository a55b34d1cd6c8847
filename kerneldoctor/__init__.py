"""kerneldoctor: can this machine run this GPU kernel?

`import kerneldoctor` is cheap: what is behind a name is imported when the name is first used.
"""

# Nothing is imported here, not even from the standard library: under `python -m` the current folder still comes first.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api import scan
    from .api_compare import compare_kernels
    from .api_diagnose import diagnose
    from .api_preflight import Preflight, run_preflight
    from .api_recommend import recommend
    from .api_try import try_kernel
    from .compare.model import Comparison
    from .diagnosis.answer import Diagnosis
    from .environment import Environment
    from .preflight.reading import read_policy
    from .recommendation.model import Recommendation
    from .report.model import Ignore, Report
    from .smoke.trial import Trial

__version__ = "0.1.0"
__all__ = [
    "Comparison", "Diagnosis", "Environment", "Ignore", "Preflight", "Recommendation", "Report", "Trial",
    "__version__", "compare_kernels", "diagnose", "read_policy", "recommend", "run_preflight", "scan", "try_kernel",
]  # fmt: skip

_HOMES = {
    "diagnose": "api_diagnose", "Diagnosis": "diagnosis.answer", "scan": "api", "try_kernel": "api_try",
    "compare_kernels": "api_compare", "Comparison": "compare.model",
    "recommend": "api_recommend", "Recommendation": "recommendation.model",
    "run_preflight": "api_preflight", "Preflight": "api_preflight", "read_policy": "preflight.reading",
    "Environment": "environment", "Ignore": "report.model",
    "Report": "report.model", "Trial": "smoke.trial",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
