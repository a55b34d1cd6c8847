"""Looks at a machine: each probe asks the Host and returns one part of an Environment. Probes never judge."""
