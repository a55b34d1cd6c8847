"""torch against driver, GPU, and its companions."""
