"""Unmet requirements: those that break an import, those that harm a part, and all that people live with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.facts_case import answer, case_of


def of(*conflicts: tuple[str, str, str], **facts: Any) -> Any:
    listed = [{"distribution": d, "requirement": r, "found": f} for d, r, f in conflicts]
    return case_of(requirements={"conflicts": listed}, **facts)


@pytest.mark.parametrize(
    ("conflict", "effect"),
    [
        (("transformers", "tokenizers<0.24.0,>=0.23.1", "0.21.4"), "import"),
        (("transformers", "tokenizers<0.24.0,>=0.23.1", ""), "use"),  # it imports, and makes no fast tokenizer
        (("transformers", "PyYAML>=5.1", ""), "import"),
        (("transformers", "typer", ""), ""),
        (("transformers", "huggingface-hub<2.0,>=1.5.0", ""), "import"),
        (("transformers", "huggingface-hub<2.0,>=1.5.0", "2.4.0"), ""),  # KD5003
        (("kernels", "huggingface_hub>=1.10.0", "0.36.0"), ""),  # KD3004
        (("kernels", "huggingface_hub>=1.10.0", ""), "import"),
        (("kernels", "sigstore>=4,<5", ""), ""),
        (("huggingface-hub", "httpx2<3,>=2.0.0", ""), "import"),
        (("huggingface-hub", "hf-xet<2.0.0,>=1.6.0", ""), ""),
        (("torch", "typing-extensions>=4.10.0", ""), "import"),
        (("torch", "sympy>=1.13.3", ""), "use"),
        (("torch", "setuptools>=77.0.3", "65.5.0"), ""),
        (("torch", "triton==3.6.0", "3.7.1"), "use"),
        (("torch", "nvidia-cudnn-cu13==9.15.1.9", ""), ""),  # KD4011
        (("vllm", "torch==2.9.0", "2.11.0"), "use"),
        (("vllm", "numpy<2.3", "2.4.0"), ""),
        (("unsloth", "datasets<4.4", "4.5.0"), ""),
        (("flash-attn-4", "quack-kernels>=0.2", ""), ""),  # KD2032
        (("tokenizers", "huggingface-hub<2.0", "2.4.0"), ""),
    ],
)
def test_what_comes_of_it(conflict: tuple[str, str, str], effect: str) -> None:
    case = of(conflict)
    told = {name: answer(case, f"requirements.{name}") for name in ("broken_imports", "unmet")}
    assert {name for name, texts in told.items() if texts != "absent"} == (
        {"import": {"broken_imports"}, "use": {"unmet"}, "": set()}[effect]
    )


def test_what_pip_is_given() -> None:
    case = of(
        ("kernels", "huggingface-hub>=1.10.0", ""),
        ("transformers", "huggingface-hub<2.0,>=1.5.0", ""),
        ("transformers", "tqdm", ""),
        ("transformers", "python>=3.10", "3.9.18"),
    )
    assert answer(case, "requirements.broken_imports_pins") == '"huggingface-hub>=1.10.0,<2.0,>=1.5.0" "tqdm"'
    assert answer(of(("transformers", "python>=3.10", "3.9.18")), "requirements.broken_imports_pins") == "absent"


def test_the_ones_who_ask_are_installed_again_in_their_releases() -> None:
    conflicts = (
        ("vllm", "torch==2.9.0", "2.11.0"),
        ("vllm", "transformers<5", "5.17.0"),
        ("trl", "accelerate>=2", "1.0"),
    )
    assert answer(of(*conflicts, packages={"vllm": "0.12.0", "trl": "0.30.0"}), "requirements.unmet_pins") == (
        "vllm==0.12.0 trl==0.30.0"
    )
    assert answer(of(*conflicts, packages={"vllm": "0.12.0"}), "requirements.unmet_pins") == "absent"


@pytest.mark.parametrize(
    ("conflict", "extensions", "wanted"),
    [
        (("torchvision", "torch==2.5.0", "2.11.0"), [], True),
        (("torchvision", "torch==2.9.0", "2.9.1"), [], False),
        (("torchvision", "torch==2.15.0.dev20261101", "2.15.0.dev20261102+cu132"), [], False),
        (("torchaudio", "torch==2.8.0", "2.11.0+cu130"), [], True),
        (("torchvision", "torch>=2.5", "2.4.0"), [], False),
        (("torchvision", "numpy", ""), [], False),
        (("torchvision", "torch==2.5.0", ""), [], False),
        (("torchvision", "torch==2.5.0", "2.11.0"), [{"module": "torchvision._C", "missing_torch_symbols": []}], False),
        (("torchvision", "torch==2.5.0", "2.11.0"), [{"module": "torchvision._C"}], True),
    ],
)
def test_libraries_that_are_compiled_for_one_torch(
    conflict: tuple[str, str, str], extensions: list[dict[str, Any]], wanted: bool
) -> None:
    case = of(conflict, extensions=extensions)
    assert (answer(case, "torch.other_torch_wanted") != "absent") is wanted


def test_the_torch_of_nvidias_containers_is_named_before_its_release() -> None:
    assert (
        answer(of(("torchvision", "torch==2.9.0", "2.9.0a0+50eac811a6.nv25.9")), "torch.other_torch_wanted") == "absent"
    )
