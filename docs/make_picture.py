"""Write docs/demo.svg, the picture of the demo: `python docs/make_picture.py`."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from hedgerow.cli.demo import print_demo
from hedgerow.cli.demonstration import demonstrate

if __name__ == "__main__":
    console = Console(record=True, width=80, file=io.StringIO(), highlight=False)
    print_demo(console, demonstrate(n_jobs=-1, progress=None))
    console.save_svg(str(Path(__file__).with_name("demo.svg")), title="hedgerow demo")
