"""Finds in a code base which attention implementation or Hub kernel it asks for; judges no machine."""
