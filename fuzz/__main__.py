"""python -m fuzz"""

import sys

from fuzz.runs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
