"""python -m regard"""

import sys

from regard.cli.main import main

sys.exit(main())
