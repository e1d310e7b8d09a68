"""Draw the pictures of the documents again.

python docs/make_picture.py demo        what `hedgerow demo` prints, as docs/demo.svg
python docs/make_picture.py page URL    the page of a running `hedgerow demo --serve`, as docs/how-to/page.png

The second needs Chromium, playwright and pillow.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent
COLUMNS = 80


def draw_demo() -> None:
    """Run the demo as in a terminal with colours, and keep what it prints."""
    from rich.console import Console
    from rich.text import Text

    terminal = {"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "COLUMNS": str(COLUMNS)}
    printed = subprocess.run(
        [sys.executable, "-m", "hedgerow", "demo"],
        env={**os.environ, **terminal},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the progress bar
        text=True,
        check=True,
    )
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    console.print(Text.from_ansi(printed.stdout))
    console.save_svg(str(DOCS / "demo.svg"), title="hedgerow demo")


def draw_page(url: str) -> None:
    """Ask the page about its unsure example, open the first explanation, and take a picture."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1280, "height": 1130}, reduced_motion="reduce")
        page.goto(url)
        page.get_by_role("button", name="each member is unsure").click()
        page.get_by_role("button", name="Why?").first.click()
        page.locator(".sides").wait_for()
        page.locator("#answer-title").evaluate("(title) => window.scrollTo(0, title.offsetTop - 24)")
        page.mouse.move(0, 0)
        taken = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    # 96 colours are enough, and a third of the size.
    taken.convert("RGB").quantize(96).save(DOCS / "how-to/page.png", optimize=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["demo"]:
            draw_demo()
        case ["page", url]:
            draw_page(url)
        case _:
            sys.exit(__doc__)
