"""Compares what is known of two machines, and says which differences matter."""
