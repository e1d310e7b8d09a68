"""``python -m hedgerow`` is the command ``hedgerow``."""

import sys

from .cli import main

sys.exit(main())
