"""A kernel as transformers and TRL use it: a small random model with that attention, held to the same one without."""
