"""Names the fault in a pasted report; reads no file of the user and renders nothing."""
