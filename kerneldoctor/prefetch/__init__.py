"""Brings builds of Hub kernels to where a machine without network finds them, and looks whether it would."""
