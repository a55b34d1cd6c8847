"""Attention implementations side by side on one device: what is measured, in which order, and what came of it."""
