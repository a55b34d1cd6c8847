"""Weighs what could be used here, from the newest to the oldest: measured before predicted before unknown."""
