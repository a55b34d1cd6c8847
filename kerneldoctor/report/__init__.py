"""What a person or a program reads: renderers of a Report. They word and lay out; they never decide."""
