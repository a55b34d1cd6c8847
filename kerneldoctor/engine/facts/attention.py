"""FlashAttention and other extensions against torch, Python, the C library and the GPU."""
