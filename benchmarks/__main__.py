"""``python -m benchmarks``."""

import sys

try:
    import matplotlib  # noqa: F401
    import rich  # noqa: F401
    import tyro  # noqa: F401
except ImportError as error:
    print(f"error: the benchmarks need {error.name}: pip install 'jaxfocal[train]'", file=sys.stderr)
    sys.exit(2)

from ._cli import main

sys.exit(main())
