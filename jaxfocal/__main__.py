"""``python -m jaxfocal`` is the command ``jaxfocal``."""

import sys

from .cli import main

sys.exit(main())
