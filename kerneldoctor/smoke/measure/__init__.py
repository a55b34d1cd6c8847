"""How fast attention is and what memory it takes: the child's side of `compare`. It must not judge, nor rank."""
