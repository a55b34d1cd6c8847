"""The compiled extensions that break with torch or CUDA upgrades, as data: whose they are and where their files lie.

Only what `import` or the first call loads is listed: a file that is loaded for some GPUs or never (optional parts,
test libraries, one file per CUDA release) would be reported as broken where nobody misses it.
"""

from __future__ import annotations

from typing import NamedTuple


class KnownExtension(NamedTuple):
    """Files of one distribution."""

    distributions: tuple[str, ...]  # normalised; the first that is installed owns the files
    folder: str  # below a sys_path entry, "" for a top-level module
    stem: str  # of the file name, up to its first dot


def _top(distribution: str, *modules: str) -> list[KnownExtension]:
    return [KnownExtension((distribution,), "", module) for module in modules]


def _inside(distribution: str, folder: str, *stems: str) -> list[KnownExtension]:
    return [KnownExtension((distribution,), folder, stem) for stem in stems]


EXTENSIONS: tuple[KnownExtension, ...] = (
    # FlashAttention and what its repository builds beside it
    *_top("flash-attn", "flash_attn_2_cuda", "flash_attn_cuda"),
    *_top("flash-attn-3", "flash_attn_3_cuda"),
    *_top("flashattn-hopper", "flashattn_hopper_cuda"),
    KnownExtension(("flash-attn-3",), "flash_attn_3", "_C"),
    KnownExtension(("fa3-fwd",), "fa3_fwd", "_C"),
    *_top("rotary-emb", "rotary_emb"),
    *_top("dropout-layer-norm", "dropout_layer_norm"),
    *_top("fused-dense-lib", "fused_dense_lib"),
    *_top("xentropy-cuda-lib", "xentropy_cuda_lib"),
    # State-space models and other attention
    *_top("causal-conv1d", "causal_conv1d_cuda"),
    *_top("mamba-ssm", "selective_scan_cuda"),
    *_top("fast-hadamard-transform", "fast_hadamard_transform_cuda"),
    *_top("block-sparse-attn", "block_sparse_attn_cuda"),
    *_inside("flash-mla", "flash_mla", "cuda"),
    *_inside("natten", "natten", "libnatten"),
    *_inside("xformers", "xformers", "_C", "_C_flashattention", "_C_flashattention3"),
    # Serving engines
    *_inside("vllm", "vllm", "_C", "_C_stable_libtorch", "_moe_C"),
    *_inside("vllm", "vllm/vllm_flash_attn", "_vllm_fa2_C"),
    *_inside("sgl-kernel", "sgl_kernel", "common_ops"),
    *_inside("sgl-kernel", "sgl_kernel/sm90", "common_ops"),
    *_inside("sgl-kernel", "sgl_kernel/sm100", "common_ops"),
    *_inside("flashinfer", "flashinfer", "_kernels", "flashinfer_kernels"),
    *_top("deep-ep", "deep_ep_cpp"),
    *_inside("deep-gemm", "deep_gemm", "_C"),
    *_top("deep-gemm", "deep_gemm_cpp"),
    *_top("grouped-gemm", "grouped_gemm_backend"),
    *_top("megablocks", "megablocks_ops"),
    # Training libraries
    *_top("transformer-engine-torch", "transformer_engine_torch"),
    *_inside("transformer-engine-torch", "transformer_engine", "transformer_engine_torch"),
    *_top("apex", "amp_C", "apex_C", "fused_layer_norm_cuda"),
    # Quantisation; bitsandbytes is chosen by torch's CUDA, see `extensions`
    *_inside("torchao", "torchao", "_C"),
    *_top("autoawq-kernels", "awq_ext"),
    *_top("auto-gptq", "autogptq_cuda_64", "exllamav2_kernels"),
    *_top("exllamav2", "exllamav2_ext"),
    # PyTorch's own domain libraries and graph and 3D extensions
    *_inside("torchvision", "torchvision", "_C"),
    *_inside("torchaudio", "torchaudio/lib", "libtorchaudio", "_torchaudio"),
    *_inside("torch-scatter", "torch_scatter", "_scatter_cuda", "_scatter_cpu"),
    *_inside("torch-sparse", "torch_sparse", "_spmm_cuda", "_spmm_cpu"),
    *_inside("torch-cluster", "torch_cluster", "_knn_cuda", "_knn_cpu"),
    *_inside("pyg-lib", "pyg_lib", "libpyg"),
    *_inside("detectron2", "detectron2", "_C"),
    *_inside("mmcv", "mmcv", "_ext"),
    *_inside("pytorch3d", "pytorch3d", "_C"),
)
