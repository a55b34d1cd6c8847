"""What tracebacks, installers, shells and the kernels library leave behind."""

from __future__ import annotations

import pytest

from kerneldoctor.environment import Extension
from kerneldoctor.intake import read

IMPORT = """\
Traceback (most recent call last):
  File "/opt/conda/lib/python3.11/site-packages/flash_attn/flash_attn_interface.py", line 15, in <module>
    import flash_attn_2_cuda as flash_attn_gpu
ImportError: {}
"""
SO = "/opt/conda/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"


def extension(message: str) -> Extension:
    listed = read(IMPORT.format(message)).environment.extensions.value
    assert listed is not None
    assert listed[0].module == "flash_attn_2_cuda"
    assert listed[0].distribution.value == "flash-attn"
    return listed[0]


def test_an_import_error_tells_of_the_extension() -> None:
    undefined = extension(f"{SO}: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs")
    assert undefined.missing_torch_symbols.value == ("_ZN3c105ErrorC2ENS_14SourceLocationESs",)
    assert undefined.cxx11_abi.value is False
    assert undefined.abi_tag.value == "cp311"
    assert extension("libcudart.so.12: cannot open shared object file: No such file").cudart_major.value == "12"
    glibc = extension(f"/lib64/libc.so.6: version `GLIBC_2.32' not found (required by {SO})")
    assert glibc.glibc_needed.value == "2.32"
    stdlib = extension(f"/lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by {SO})")
    assert stdlib.glibcxx_needed.value == "3.4.29"


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        (IMPORT.format("x"), "python.version", "3.11"),
        (IMPORT.format("x"), "python.environment_kind", "conda"),
        (f"{SO}: undefined symbol: _ZN3c104cuda9SetDeviceEa", "system.machine", "x86_64"),
        (r'  File "C:\Users\a\venv\Lib\site-packages\torch\__init__.py", line 1', "system.os", "windows"),
        ("Successfully installed flash-attn-2.8.3 torch-2.9.0 triton-3.5.0", "packages.torch.version", "2.9.0"),
        (
            "Requirement already satisfied: torch>=2.0 in /x/site-packages (from a==1.0) (2.8.0+cu126)",
            "torch.cuda",
            "12.6",
        ),
        (" + kernels==0.17.2", "packages.kernels.version", "0.17.2"),
        (
            "Downloading flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
            "flash_attn.built_for_torch",
            "2.8",
        ),
        (
            "Downloading flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
            "python.version",
            "3.12",
        ),
        ("pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu126", "torch.version", "2.8.0"),
        ("pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu126", "torch.cuda", "12.6"),
        ("export HF_HUB_OFFLINE=1", "huggingface.offline", True),
        ("HF_HUB_DISABLE_TELEMETRY=1 python run.py", "huggingface.telemetry_disabled", True),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "2,3"', "visibility.raw", "2,3"),
        ("Cuda compilation tools, release 12.4, V12.4.131", "toolkit.nvcc_version", "12.4"),
        ("torch.__version__  = 2.7.1+cu128", "torch.version", "2.7.1+cu128"),
        ("torch.__version__ : 2.1.0\ntorch.version.cuda  : 11.8", "torch.cuda", "11.8"),
        ("PyTorch version:\n2.9.0+cu130", "torch.cuda", "13.0"),
        ('python -c "import torch; print(torch.__version__, torch.version.cuda)"\n2.9.0 12.8', "torch.cuda", "12.8"),
        ("The NVIDIA driver on your system is too old (found version 11040).", "driver.cuda", "11.4"),
        ("Failed to initialize NVML: Driver/library version mismatch", "driver.nvml_error", "driver_library_mismatch"),
        ("but found huggingface-hub==1.24.0.", "packages.huggingface-hub.version", "1.24.0"),
        (
            "requires huggingface-hub<1.0, but found huggingface-hub==1.24.0.",
            "packages.huggingface-hub.version",
            "1.24.0",
        ),
        ("Name: vllm\nVersion: 0.21.0\nSummary: x", "packages.vllm.version", "0.21.0"),
        (
            "flash-attn @ https://h/flash_attn-2.8.3%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
            "flash_attn.built_for_cuda",
            "12",
        ),
        (
            "The detected CUDA version (12.2) mismatches the version that was used to compile\nPyTorch (11.7).",
            "torch.cuda",
            None,
        ),
        (
            "The detected CUDA version (12.2) mismatches the version that was used to compile PyTorch (11.7).",
            "torch.cuda",
            "11.7",
        ),
    ],
)
def test_one_line_tells_one_fact(text: str, path: str, value: object) -> None:
    assert read(text).environment.fact(path).value == value


def test_a_warning_names_the_gpu_its_capability_and_what_torch_holds() -> None:
    environment = read(
        "UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch"
        " installation.\nThe current PyTorch install supports CUDA capabilities sm_50 sm_80 sm_90a compute_90.\n"
    ).environment
    (gpu,) = environment.gpus.value or ()
    assert (gpu.name.value, gpu.compute_capability.value) == ("NVIDIA GeForce RTX 5090", "12.0")
    assert environment.fact("torch.archs").value == ("5.0", "8.0", "9.0a", "9.0+PTX")


TRACE = """\
ValueError: Cannot find a build variant for this system in kernels-community/flash-attn2 (revision: v2):

torch212-cxx11-cu130-x86_64-linux: Torch version (2.12) does not match environment Torch version (2.13)
torch-stable-abi210-cu132-x86_64-linux: CUDA version (13.2) is not compatible with system CUDA version (13.0)
torch210-cxx11-cu130-aarch64-linux: CPU (aarch64) does not match system CPU (x86_64)
torch-xpu: backend (xpu) does not match system backend (cuda) and is not universal
"""


def test_the_trace_of_a_failed_search_holds_a_listing_and_what_the_library_saw() -> None:
    pasted = read(TRACE)
    assert [build.variant for build in pasted.builds] == [line.partition(":")[0] for line in TRACE.splitlines()[2:]]
    assert not any(build.accepted for build in pasted.builds)
    assert pasted.builds[0].reason.startswith("Torch version (2.12)")
    assert pasted.builds[0].line_number == 3
    assert pasted.kernel is not None
    assert (pasted.kernel.repo.value, pasted.kernel.version.value) == ("kernels-community/flash-attn2", 2)
    for path, value in {"torch.version": "2.13", "torch.cuda": "13.0", "system.machine": "x86_64"}.items():
        assert pasted.environment.fact(path).value == value
    assert pasted.contradictions == ()
    assert "kernels variants" in pasted.kinds


def test_kernels_versions_marks_what_would_load() -> None:
    pasted = read(
        "Version 3:\n\ntorch-stable-abi210-cu130-x86_64-linux compatible, preferred ✅\ntorch-cpu: backend (cpu) x\n"
    )
    assert [build.accepted for build in pasted.builds] == [True, False]


def test_a_path_names_the_build_that_was_loaded() -> None:
    kernel = read(
        '  File "/c/hub/kernels--kernels-community--flash-attn2/snapshots/0510be1e482269a46fadf30069aca3ede496ff9b/'
        "build/"
        'torch-stable-abi210-cu130-x86_64-linux/flash_attn_interface.py", line 291, in _flash_attn_backward\n'
        "torch.ops.load_library(_flash_attn2_cuda_48628c8.abi3.so)\n"
    ).kernel
    assert kernel is not None
    assert kernel.repo.value == "kernels-community/flash-attn2"
    assert kernel.commit.value == "0510be1e482269a46fadf30069aca3ede496ff9b"
    assert kernel.variant.value == "torch-stable-abi210-cu130-x86_64-linux"
    assert (kernel.framework.value, kernel.backend.value, kernel.cuda.value) == ("torch-stable-abi", "cuda", "13.0")
    assert kernel.build_id.value == "48628c8"


def test_older_releases_spell_out_this_machine_in_the_folder_they_miss() -> None:
    environment = read(
        "Kernel at path `/c/models--a--b/x` does not have build: torch28-cxx11-cu128-x86_64-linux"
    ).environment
    assert environment.fact("torch.version").value == "2.8"
    assert environment.fact("torch.cuda").value == "12.8"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        (
            'AutoModel.from_pretrained(name, attn_implementation="kernels-community/flash-attn2@v3")',
            "attn_implementation",
            "kernels-community/flash-attn2@v3",
        ),
        ("--attn_implementation flash_attention_2", "attn_implementation", "flash_attention_2"),
        ('"num_attention_heads": 14,', "q_heads", 14),
        ('"num_key_value_heads": 2,', "kv_heads", 2),
        ("Qwen with 14 query heads and 2 KV heads", "kv_heads", 2),
        ("torch_dtype=torch.bfloat16", "dtype", "bfloat16"),
        ("trainer.train()", "backward", True),
        ("mode: inference", "backward", False),
        ("tokenizer.padding_side = 'left'", "padding_side", "left"),
        ("model = torch.compile(model)", "compile", True),
        ("torchrun --nproc_per_node=8 train.py", "distributed", True),
        ("out = flash_attn_varlen_func(q, k, v, cu_seqlens_q)", "varlen", True),
        ('{"model_type": "qwen3"}', "model_type", "qwen3"),
    ],
)
def test_what_the_kernel_was_wanted_for(text: str, field: str, value: object) -> None:
    workload = read(text).workload
    assert workload is not None
    assert getattr(workload, field).value == value


def test_a_pin_in_the_attention_setting_names_the_kernel() -> None:
    kernel = read('attn_implementation="kernels-community/flash-attn2@v3"').kernel
    assert kernel is not None
    assert (kernel.repo.value, kernel.revision.value, kernel.version.value) == (
        "kernels-community/flash-attn2",
        "v3",
        3,
    )


def test_a_text_without_kernel_and_workload_has_none() -> None:
    pasted = read("torch 2.9.0")
    assert pasted.kernel is None
    assert pasted.workload is None


def test_ldd_and_readelf_tell_what_an_extension_needs() -> None:
    listed = read(
        f"$ ldd {SO}\n\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc10.so => not found\n"
        "\tlibcudart.so.12 => /usr/local/cuda/lib64/libcudart.so.12 (0x00007f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n"
    ).environment.extensions.value
    assert listed is not None
    assert listed[0].needed.value == ("libc10.so", "libcudart.so.12", "libc.so.6")
    assert listed[0].cudart_major.value == "12"
    listed = read(
        f"$ readelf -d {SO} | grep NEEDED\n 0x0000000000000001 (NEEDED)  Shared library: [libcudart.so.13]\n"
    ).environment.extensions.value
    assert listed is not None
    assert listed[0].cudart_major.value == "13"
    assert read("ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35").environment.fact("system.libc_version").value == "2.35"


def test_kernels_info_describes_the_kernel() -> None:
    kernel = read(
        "Repository: kernels-community/flash-attn4\nRevision: v1\nName: flash-attn4\nVersion: 1\n"
        "Minimum kernels version: 0.13.0\nLicense: BSD-3-Clause\nPython dependencies: nvidia-cutlass-dsl, einops\n"
        "Backends: cuda\n"
    ).kernel
    assert kernel is not None
    assert (kernel.repo.value, kernel.version.value, kernel.minver.value) == (
        "kernels-community/flash-attn4",
        1,
        "0.13.0",
    )
    assert kernel.python_depends.value == ("nvidia-cutlass-dsl", "einops")


def test_a_capture_is_recognised_for_the_scan_to_replay() -> None:
    assert read('{"schema": "kerneldoctor.capture/1", "environ": {}}').kinds == ("kerneldoctor capture",)


def test_no_devices_were_found_means_no_gpu() -> None:
    gpus = read("$ nvidia-smi\nNo devices were found\n").environment.gpus
    assert gpus.value == ()
    assert read("nothing said").environment.gpus.is_unknown


def test_the_message_of_a_fallback_says_that_flash_attn_is_not_there() -> None:
    pasted = read(
        "You do not have `flash_attn` installed, using `kernels-community/flash-attn2` from the `kernels` library "
        "instead!"
    )
    assert pasted.environment.fact("flash_attn.version").is_absent
    assert pasted.kernel is not None
    assert pasted.kernel.repo.value == "kernels-community/flash-attn2"


def test_unsloths_banner_calls_the_capability_cuda() -> None:
    environment = read(
        r"""==((====))==  Unsloth 2025.9.1: Fast Llama patching. Transformers: 4.56.1.
   \\   /|    NVIDIA L4. Num GPUs = 1. Max memory: 22.161 GB. Platform: Linux.
O^O/ \_/ \    Torch: 2.8.0+cu126. CUDA: 8.9. CUDA Toolkit: 12.6. Triton: 3.4.0"""
    ).environment
    assert environment.fact("torch.version").value == "2.8.0+cu126"
    assert environment.fact("torch.cuda").value == "12.6"
    assert environment.gpus.value[0].compute_capability.value == "8.9"  # type: ignore[index]


def test_poetry_and_uv_listings_are_read() -> None:
    assert (
        read("torch      2.8.0 Tensors and Dynamic neural networks").environment.fact("torch.version").value == "2.8.0"
    )
    uv = read(
        "Package      Version Editable project location\n------------ ------- ---\nflash-attn   2.8.3   /src/fa\n"
    )
    assert uv.environment.fact("packages.flash-attn.editable").value is True
