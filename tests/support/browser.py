"""A real browser for tests and for the pictures of the docs, and what a layout must not do."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
Scheme = Literal["light", "dark"]
SLOW = 120_000
"""Milliseconds: a browser that draws in software takes many seconds for its first page."""
QUIET = "localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true')"
"""MLflow opens its chat over a third of the page at a browser's first visit."""
SMALLEST = 8
"""Pixels in height of a line of text that can be read."""
LAYOUT = """SMALLEST => {
  const said = [], name = one => `${one.tagName.toLowerCase()}.${one.className.baseVal ?? one.className}`
    + ` "${one.textContent.trim().replace(/\\s+/g, ' ').slice(0, 50)}"`;
  const scrolls = one => ['auto', 'scroll'].includes(getComputedStyle(one).overflowX);
  const scrolled = one => { for (let up = one; up; up = up.parentElement) if (scrolls(up)) return true };
  const shown = one => one.checkVisibility() && !one.closest('svg');
  const seen = {opacityProperty: true, visibilityProperty: true}, root = document.documentElement;
  if (root.scrollWidth > root.clientWidth)
    said.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
  const all = [...document.body.querySelectorAll('*')].filter(shown);
  for (const one of all)
    if (one.clientWidth && one.scrollWidth > one.clientWidth + 1 && !scrolled(one))
      said.push(`cut off at the side: ${name(one)}`);
  for (const one of all)
    if (one.clientHeight && one.scrollHeight > one.clientHeight + 1
        && getComputedStyle(one).overflowY === 'hidden')
      said.push(`cut off below: ${name(one)}`);
  // What is left of a box that its ancestors clip.
  const clipped = (one, box) => {
    let {left, right, top, bottom} = box;
    for (let up = one; up && up !== root && up !== document.body; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== 'visible') {
        const edge = up.getBoundingClientRect();
        [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
        [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
      }
    return {left, right, top, bottom};
  };
  const boxes = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, range = document.createRange();
    // In a replay two agents may meet.
    if (text.parentElement.closest('svg:has(animate)')) continue;
    if (!text.data.trim() || !text.parentElement.checkVisibility(seen)) continue;
    range.selectNodeContents(text);
    for (const box of range.getClientRects()) {
      if (box.height > 0 && box.height < SMALLEST) said.push(`too small to read: "${text.data.trim()}"`);
      const left = clipped(text.parentElement, box);
      if (left.right - left.left > 1 && left.bottom - left.top > 1) boxes.push({text, box: left});
    }
  }
  boxes.sort((one, other) => one.box.top - other.box.top);
  // Line boxes of neighbouring lines share a few pixels in which there are no letters.
  const tall = box => box.bottom - box.top;
  const shared = (a, b) => [Math.min(a.right, b.right) - Math.max(a.left, b.left),
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j].box.top < boxes[i].box.bottom; j++) {
      const [wide, high] = shared(boxes[i].box, boxes[j].box);
      if (wide > 2 && high > 0.4 * Math.min(tall(boxes[i].box), tall(boxes[j].box)))
        said.push(`overlap: "${boxes[i].text.data.trim().slice(0, 40)}"`
          + ` and "${boxes[j].text.data.trim().slice(0, 40)}"`);
    }
  return said;
}"""


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium with a profile of its own; the test is skipped where none is installed, and fails
    with ENVWRIGHT_BROWSER_REQUIRED."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        (pytest.fail if os.environ.get("ENVWRIGHT_BROWSER_REQUIRED") else pytest.skip)(
            "no Chromium is installed (apt-get install chromium)"
        )
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


def new_page(opened: Browser, width: int, height: int, scheme: Scheme = "light", login=None) -> Page:
    """A page with a window of this size, which logs in as (user, password) where a server asks for it."""
    window = {"width": width, "height": height}
    who = {"username": login[0], "password": login[1]} if login else None
    page = opened.new_page(viewport=window, color_scheme=scheme, http_credentials=who)
    page.set_default_timeout(SLOW)
    page.add_init_script(QUIET)
    return page


def layout_problems(page: Page) -> list[str]:
    """What is wrong with the layout of the page: wider than its window, text that is cut off and cannot be
    scrolled to, lines of text over each other, or too small."""
    return page.evaluate(LAYOUT, SMALLEST)
