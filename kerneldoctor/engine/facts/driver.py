"""The NVIDIA driver and the GPUs against CUDA."""
