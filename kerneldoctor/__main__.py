"""`python -m kerneldoctor`; nothing but the call."""

from .cli import main

if __name__ == "__main__":
    main()
