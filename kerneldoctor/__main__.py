"""`python -m kerneldoctor`; nothing but the call."""

import sys

# `-m` puts the current folder first on the path, where anybody may have left a json.py; the first imports of all have
# been made by now. A kerneldoctor that lies there itself finds its own modules without the path.
if not sys.flags.safe_path:
    del sys.path[:1]

from .cli import main

if __name__ == "__main__":
    main()
