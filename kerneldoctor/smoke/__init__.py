"""The smoke room: runs somebody else's kernel in a process that may die; importing this file must import nothing."""
