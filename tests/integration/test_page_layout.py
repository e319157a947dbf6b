"""The report of a run and the page of a comparison in a real browser: on a desk, a tablet and a phone, light
and dark.

Screenshots go to the folder that ENVWRIGHT_SCREENSHOTS names, or to that of the test.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from support.browser import Scheme, browser, layout_problems, new_page
from support.comparisons import comparison as comparison_of
from support.finished_run import FinishedRun

from infra.comparison.gather import gather
from infra.comparison.page import write_page
from infra.runs.files import CURRICULUM, ROLLOUTS, TEST_ROLLOUTS, Curriculum
from infra.runs.run import Run

pytestmark = pytest.mark.slow
WIDTHS = (1280, 768, 390)
FAULTS = {
    "the page is ": "<p style='width: 3000px'>wide</p>",
    "cut off at the side": "<p style='width: 40px; overflow: hidden; white-space: nowrap'>a long line</p>",
    "cut off below": "<p style='height: 12px; overflow: hidden'>one<br>two</p>",
    "too small to read": "<p style='font-size: 5px'>small</p>",
    "overlap": "<p>first</p><p style='margin-top: -34px'>second</p>",
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def comparison(finished: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a comparison of four arms with three seeds, whose curricula are copies of one
    run under their names; one failed, one has not begun."""
    folder = tmp_path_factory.mktemp("comparison")
    spec = comparison_of("checkpoint", "frontier", "random", "fixed", seeds=[0, 1, 2])
    for child in spec.children[:-2]:
        shutil.copytree(finished.directory, folder / child.name)
        run = Run(directory=folder / child.name)
        run.write(CURRICULUM, Curriculum(name=child.name, preset=child.preset))
        for stage in (-1, 0, 1):
            shutil.copy(run.path(ROLLOUTS, stage), run.path(TEST_ROLLOUTS, stage))
    reason = f"{folder}/a/path/without/a/place/to/break/a/line: " + "out of memory " * 20
    results = gather(folder, spec, {spec.children[-2].name: reason})
    last = [(child.state, bool(child.reason)) for child in results.children[-3:]]
    assert last == [("finished", False), ("failed", True), ("waiting", False)]
    return write_page(folder, results)


def check(chromium: Browser, page_file: Path, scheme: Scheme, folder: Path) -> None:
    """No text is cut off or covered at any width, with all that can be opened open."""
    screenshots = Path(os.environ.get("ENVWRIGHT_SCREENSHOTS", folder / "screenshots"))
    found = {}
    for width in WIDTHS:
        page = new_page(chromium, width, 900, scheme)
        page.goto(page_file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        found[width] = layout_problems(page)
        page.screenshot(path=screenshots / f"{page_file.stem}-{scheme}-{width}.png", full_page=True)
        page.close()
    assert found == {width: [] for width in WIDTHS}, f"screenshots: {screenshots}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_fits_screens_of_all_widths(scheme, chromium, trained, tmp_path):
    check(chromium, trained.directory / "report.html", scheme, tmp_path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_comparison_fits_screens_of_all_widths(scheme, chromium, comparison, tmp_path):
    check(chromium, comparison, scheme, tmp_path)


def test_a_fault_of_the_layout_is_seen(chromium: Browser):
    page = chromium.new_page(viewport={"width": 500, "height": 400})
    for kind, fault in FAULTS.items():
        page.set_content(f"<body style='font: 16px serif'>{fault}")
        assert [problem for problem in layout_problems(page) if problem.startswith(kind)]
    page.set_content("<div style='width: 90px; overflow-x: auto'><p style='width: 200px'>scrolled</p></div>")
    assert layout_problems(page) == []
    page.close()
