"""``python -m vpo_lite.cli``."""

import sys

from . import main

sys.exit(main())
