"""``python -m benchmarks``."""

import sys

try:
    import jaxtyping  # noqa: F401
    import matplotlib  # noqa: F401
except ImportError as error:
    print(f"error: the benchmarks need {error.name}: pip install {error.name}", file=sys.stderr)
    sys.exit(2)

from ._cli import main

sys.exit(main())
