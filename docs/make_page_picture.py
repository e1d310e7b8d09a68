"""Write docs/page.png, a picture of the page of a demo that runs: `python docs/make_page_picture.py URL`."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 1130

if __name__ == "__main__":
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        page.goto(sys.argv[1])
        page.get_by_role("button", name="Ambiguous").click()
        page.get_by_role("button", name="Why?").first.click()
        page.locator(".sides").wait_for()
        page.locator("#answer-title").evaluate("(title) => window.scrollTo(0, title.offsetTop - 24)")
        page.mouse.move(0, 0)
        taken = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    # So few colours are enough, and a third of the size.
    taken.convert("RGB").quantize(96).save(Path(__file__).with_name("page.png"), optimize=True)
