"""Which transformers, kernels and huggingface_hub releases agree, and what a name loads today."""
