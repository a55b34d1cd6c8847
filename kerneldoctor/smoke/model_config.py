"""What a model asks of attention, from its config.json or through transformers in the target interpreter.

Parent side: imports no torch. A local file is read without network and without transformers.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UndeterminedError, UsageError
from ..processes import NOT_FROM_HERE, run_command

_LIMIT = 4 * 1024 * 1024  # bytes
_MARK = "kerneldoctor-config "
# Asked in a process of its own: transformers takes seconds to import, and a config may bring code.
_SCRIPT = f"""{NOT_FROM_HERE}
import json
from transformers import AutoConfig
config = AutoConfig.from_pretrained(sys.argv[1])
sys.stdout.write("\\n{_MARK}" + sys.argv[2] + json.dumps(config.to_dict(), default=str) + "\\n")
"""
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16", "bf16": "bfloat16", "fp16": "float16"}


def workload_of_model(model: str, python: str, timeout: float = 120.0) -> dict[str, Any]:
    """{"heads", "kv_heads", "head_dim", "dtype", "window"?, "softcap"?, "model_type"?} of a model.

    model: a config.json, a folder with one, or a name on the Hub. Raises UsageError for a model without attention
    heads and UndeterminedError where transformers gave no config.
    """
    path = Path(model).expanduser()
    config = path / "config.json" if path.is_dir() else path
    if config.is_file():
        return _workload(_read(config), str(config))
    if model.startswith((".", "/", "~")) or model.endswith(".json"):
        raise UsageError(f"--model {model}: there is no config.json")
    return _workload(_ask(model, python, timeout), model)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LIMIT:
            raise UsageError(f"--model {path}: larger than {_LIMIT // 2**20} MiB, this is no config.json")
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--model {path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"--model {path}: holds no object")
    return found


def _ask(model: str, python: str, timeout: float) -> Mapping[str, Any]:
    nonce = secrets.token_hex(8)
    done = run_command((python, "-c", _SCRIPT, model, nonce), timeout, {"TRANSFORMERS_VERBOSITY": "error"})
    if done.trouble == "timeout":
        raise UndeterminedError(f"--model {model}: transformers gave no config within {timeout:g} s")
    for line in done.stdout.splitlines():
        if line.startswith(_MARK + nonce):
            found = json.loads(line.removeprefix(_MARK + nonce))
            return found if isinstance(found, dict) else {}
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    why = said[-1][:300] if said else done.trouble or f"exit code {done.code}"
    raise UndeterminedError(f"--model {model}: transformers gave no config: {why}")


def _workload(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    text = next((config[part] for part in _TEXT_PARTS if isinstance(config.get(part), dict)), config)
    heads = _number(text, "num_attention_heads", "n_head", "num_heads", "n_heads")
    if heads is None:
        raise UsageError(f"--model {name}: its config names no attention heads")
    hidden = _number(text, "hidden_size", "n_embd", "d_model")
    head_dim = _number(text, "head_dim", "attention_head_dim") or (hidden // heads if hidden else None)
    if head_dim is None:
        raise UsageError(f"--model {name}: its config names neither head_dim nor hidden_size")
    found: dict[str, Any] = {
        "heads": heads,
        "kv_heads": _number(text, "num_key_value_heads", "num_kv_heads", "n_head_kv")
        or (1 if text.get("multi_query") else heads),
        "head_dim": head_dim,
        "dtype": _dtype(text) or _dtype(config) or "bfloat16",
    }
    window = _number(text, "sliding_window")
    if window and text.get("use_sliding_window", True):
        found["window"] = window
    softcap = text.get("attn_logit_softcapping")
    if isinstance(softcap, (int, float)) and softcap:
        found["softcap"] = float(softcap)
    if isinstance(text.get("model_type"), str):
        found["model_type"] = text["model_type"]
    return found


def _number(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _dtype(config: Mapping[str, Any]) -> str:
    """Attention kernels know two types; a model kept in fp32 is trained under autocast, in bf16."""
    said = str(config.get("dtype") or config.get("torch_dtype") or "").removeprefix("torch.")
    return _DTYPES.get(said, "")
