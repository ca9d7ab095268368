"""Child processes that try what could kill this one: they must find the same regard and torch."""

import os
import sys
from pathlib import Path

PACKAGE_PARENT = str(Path(__file__).parents[2])


def child_environment(**variables: str) -> dict[str, str]:
    """This process' environment, its module search path, and some more variables.

    `sys.path` can have folders that a child would not search: those of a `.pth` file or a `sys.path.insert`. And this
    package itself may have been found in another way: by an import hook."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, PACKAGE_PARENT])} | variables
