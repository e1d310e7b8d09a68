"""``python -m hedgerow`` is the command ``hedgerow``."""

from .cli import main

main()
