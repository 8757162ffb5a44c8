"""The screenshots of the documentation: how they are made, and how a stale one is found.

    .venv/bin/python -m tests.browser.pictures

writes docs/pictures/NAME-light.webp, NAME-dark.webp and outlines.json. Run it after you changed a
page that is in `PICTURES`. tests/acceptance/test_demo.py opens the same pages on the same world and
compares two things that are steady on every machine and every day: the outline (headings, buttons,
columns and the like, without data), and the picture at the size of a stamp.
"""

import base64
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser import chromium
from tests.browser.console import KEY_ITEM, list_missing
from tests.support.live import PERSONAL_KEY, Installation, LiveServer

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
OUTLINES = FOLDER / "outlines.json"
THEMES = ("light", "dark")
SIZE = {"width": 1280, "height": 800}
# Enough to fill each page, few enough for a test.
PERSONS = "300"
MAX_BYTES = 60_000
QUALITY = 0.7
# Both pictures become gray squares of this number of pixels per side.
STAMP_SIDE = 24
# Mean difference of two stamps, of 255: generous, because data moves and fonts differ.
MAX_DIFFERENCE = 14.0
# What an outline has: the parts of a page that do not depend on data.
STEADY_ROLES = ("heading", "button", "columnheader", "tab", "switch", "textbox", "searchbox")
STEADY_LINE = re.compile(rf'^\s*- (?:{"|".join(STEADY_ROLES)}) "([^"]*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """`path` is below the demo project; `{flag}` is the id of the flag csv-import. `heading` is
    there when the page is. `waits_for` is a text that appears last. `skips` are parts of names
    that depend on data."""

    path: str
    heading: str
    waits_for: str
    skips: Sequence[str] = ()


# To add a page, add a row, make the pictures, and use them with <picture> as README.md does.
PICTURES: Mapping[str, Picture] = {
    "home": Picture(path="home", heading="Fernleaf", waits_for="Feature flags"),
    "flags": Picture(path="feature_flags", heading="Feature flags", waits_for="pricing-page"),
    "flag": Picture(path="feature_flags/{flag}", heading="csv-import", waits_for="decided here"),
}


def build_world(folder: Path) -> Installation:
    """Make an installation with the demo in it."""
    installation = Installation(data=folder / "data", settings={})
    done = installation.run("demo", "--persons", PERSONS)
    assert done.returncode == 0, done.stderr
    return installation


def open_page(page: Page, server: LiveServer, project: int, picture: Picture) -> None:
    """Log in, go to the page and wait until it is whole."""
    page.add_init_script(f"sessionStorage.setItem('{KEY_ITEM}', {json.dumps(PERSONAL_KEY)})")
    with server.client() as client:
        flag = client.get(f"/api/projects/{project}/feature_flags/csv-import/").json()["id"]
    page.goto(f"{server.address}/project/{project}/{picture.path.format(flag=flag)}")
    expect(page.get_by_role("heading", name=picture.heading).first).to_be_visible()
    expect(page.get_by_text(picture.waits_for).first).to_be_visible()
    page.wait_for_load_state("networkidle")


def take_picture(page: Page, theme: str) -> bytes:
    """Return the page in a theme, as PNG."""
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    return page.screenshot(animations="disabled", caret="hide")


def describe_page(page: Page, picture: Picture) -> list[str]:
    """Return the outline: the steady parts in order, with # for each number."""
    names = STEADY_LINE.findall(page.locator("body").aria_snapshot())
    outline = [re.sub(r"\d[\d,.]*", "#", name) for name in names]
    return [name for name in outline if not any(part in name for part in picture.skips)]


def compress(page: Page, png: bytes) -> bytes:
    """Return a PNG as WebP. Chromium does it: nothing else in the tests knows pictures."""
    url = page.evaluate(
        """async ([png, quality]) => {
          const picture = await createImageBitmap(await (await fetch(png)).blob())
          const canvas = new OffscreenCanvas(picture.width, picture.height)
          canvas.getContext('2d').drawImage(picture, 0, 0)
          const blob = await canvas.convertToBlob({type: 'image/webp', quality})
          return await new Promise(done => {
            const reader = new FileReader()
            reader.onload = () => done(reader.result)
            reader.readAsDataURL(blob)
          })
        }""",
        [_to_url(png, "png"), QUALITY],
    )
    return base64.b64decode(url.partition(",")[2])


def compare(page: Page, png: bytes, webp: bytes) -> float:
    """Return the mean difference of two pictures at the size of a stamp, from 0 to 255."""
    difference: float = page.evaluate(
        """async ([first, second, side]) => {
          const shrink = async url => {
            const picture = await createImageBitmap(await (await fetch(url)).blob())
            const canvas = new OffscreenCanvas(side, side)
            const context = canvas.getContext('2d')
            context.filter = 'grayscale(1)'
            context.imageSmoothingQuality = 'high'
            context.drawImage(picture, 0, 0, side, side)
            return context.getImageData(0, 0, side, side).data
          }
          const [one, other] = [await shrink(first), await shrink(second)]
          let sum = 0
          for (let at = 0; at < one.length; at += 4) sum += Math.abs(one[at] - other[at])
          return sum / (one.length / 4)
        }""",
        [_to_url(png, "png"), _to_url(webp, "webp"), STAMP_SIDE],
    )
    return difference


def _to_url(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def make_pictures(server: LiveServer, browser: Browser, project: int) -> None:
    outlines = {}
    FOLDER.mkdir(exist_ok=True)
    context = browser.new_context()
    desk = context.new_page()  # decodes pictures, without the policy of the console
    for name, picture in PICTURES.items():
        page = browser.new_context(viewport=SIZE).new_page()  # type: ignore[arg-type]
        open_page(page, server, project, picture)
        outlines[name] = describe_page(page, picture)
        for theme in THEMES:
            content = compress(desk, take_picture(page, theme))
            assert len(content) <= MAX_BYTES, f"{name} in {theme} has {len(content):,} bytes"
            (FOLDER / f"{name}-{theme}.webp").write_bytes(content)
            sys.stdout.write(f"{name}-{theme}.webp  {len(content):,} bytes\n")
        page.context.close()
    OUTLINES.write_text(json.dumps(outlines, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    if lacks := list_missing():
        sys.exit(f"Missing: {', '.join(lacks)}")
    with (
        tempfile.TemporaryDirectory() as folder,
        build_world(Path(folder)).server() as server,
        chromium.running() as browser,
    ):
        make_pictures(server, browser, project=2)


if __name__ == "__main__":
    main()
