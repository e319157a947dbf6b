"""`make pictures`: the pictures of README.md and the docs, from real runs in a real browser.

Its runs are in build/pictures, where a second call finds what is done. Three hours on two cores, nearly all
for bench/random-starts-capped.yaml.
"""

import io
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from PIL import Image
from playwright.sync_api import Browser, Page
from support.browser import browser, new_page
from support.envwright_serve import ROOT, Served, person, serving
from support.two_uis import experiment_of, log_in, open_approval, open_in_mlflow

from infra.mlflow_log import view_address

DOCS, WORK = ROOT / "docs", ROOT / "build" / "pictures"
RUNS = WORK / "runs"
DEMO = "tiny-checkpoint-V6W-s0"
VARIANTS = ("fixed", "checkpoint-V6W")
COMPARISON = (
    *("compare", "tiny", "--engineers", "fixed,checkpoint", "--seeds", "0,1,2"),
    *("--jobs", "2", "--name", "engineers"),
)
ASKED = "asked"
SECTIONS = ("rates", "strata", "environments", "engineer", "failures", "gallery")
"""Of the report, in the order in which the moving picture stops at them."""
WIDTH, QUALITY = 760, 70
STOP, GLIDE, REPLAY = 1900, 70, 300
"""Milliseconds: at a section, for each picture on the way to the next, and for each of replayed answers."""
ON_THE_WAY, OF_THE_REPLAY = (0.15, 0.5, 0.85), 12


def envwright(*arguments: str) -> None:
    """Run a command of envwright to its end in the folder of the pictures' runs."""
    command = [sys.executable, "-m", "flows.cli", *arguments]
    subprocess.run(command, cwd=WORK, env=person(), stdin=subprocess.DEVNULL, check=True)


def report(opened: Browser) -> None:
    """docs/report.webp: through the report of the demo, from section to section."""
    page = new_page(opened, 1000, 700)
    page.goto((RUNS / DEMO / "report.html").as_uri())
    place = "section => section.getBoundingClientRect().top"
    tops = [0, *(page.locator(f"#{name}").evaluate(place) - 16 for name in SECTIONS)]
    frames = [(_frame(page, 0), STOP)]
    for here, there in pairwise(tops):
        frames += [(_frame(page, here + share * (there - here)), GLIDE) for share in ON_THE_WAY]
        frames += [(_frame(page, there), STOP)]
    for _ in range(OF_THE_REPLAY):
        page.wait_for_timeout(REPLAY)
        frames.append((_frame(page, tops[-1]), REPLAY))
    (first, _), *others = frames
    pictures, durations = [image for image, _ in others], [duration for _, duration in frames]
    more: dict[str, Any] = {"append_images": pictures, "duration": durations, "loop": 0, "quality": QUALITY}
    first.save(DOCS / "report.webp", save_all=True, **more)


def _frame(page: Page, top: float) -> Image.Image:
    """What the window shows that far down, made small."""
    page.evaluate(f"scrollTo({{top: {top}, behavior: 'instant'}})")
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return shot.resize((WIDTH, round(WIDTH * shot.height / shot.width)), Image.Resampling.LANCZOS)


def comparison(opened: Browser) -> None:
    """docs/comparison.png and differences.png: learning curves and differences from random starts."""
    page = new_page(opened, 1000, 700)
    page.goto((RUNS / "random-starts-capped" / "comparison.html").as_uri())
    page.locator("#curves .card").screenshot(path=DOCS / "comparison.png")
    page.locator(".card.differences").screenshot(path=DOCS / "differences.png")


def approval(opened: Browser, served: Served) -> None:
    """docs/approval.png: the form of a run that waits for a decision."""
    served.start(ASKED, '{"approval": "required", "context": "V6W"}')
    page = new_page(opened, 1300, 1050)
    log_in(served, page)
    open_approval(served, page, ASKED).screenshot(path=DOCS / "approval.png")


def mlflow(opened: Browser, served: Served) -> None:
    """docs/mlflow.png: the rates of the comparison's arms, a line each."""
    user, _, password = served.auth_string.partition(":")
    page = new_page(opened, 1300, 860, login=(user, password))
    open_in_mlflow(served, page, view_address(experiment_of(served, "engineers")))
    for variant in VARIANTS:
        page.get_by_text(f"{variant} (valid)").first.wait_for()
    page.wait_for_timeout(2_500)
    page.screenshot(path=DOCS / "mlflow.png")


def main() -> None:
    """Make the runs that are not there, and all pictures."""
    WORK.mkdir(parents=True, exist_ok=True)
    for old in (RUNS / ASKED, RUNS / ".prefect"):
        shutil.rmtree(old, ignore_errors=True)
    envwright("run", "tiny")
    envwright("report", DEMO)
    envwright(*COMPARISON)
    envwright("compare", str(ROOT / "bench" / "random-starts-capped.yaml"), "--jobs", "2")
    with browser() as opened:
        report(opened)
        comparison(opened)
        with serving(WORK) as served:
            approval(opened, served)
            mlflow(opened, served)


if __name__ == "__main__":
    main()
