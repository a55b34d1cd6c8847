"""Which builds of a Hub kernel exist, which one fits an Environment, and why not the others."""
