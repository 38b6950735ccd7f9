"""The page in a real browser: no serious violation of accessibility, no error, nothing wider than a telephone.

Without Chromium, or npm to fetch axe-core, the tests are skipped by name; with FIRSTLIGHT_REQUIRE_BROWSER set they
fail. `make test-browser` installs both on Debian. What was seen is kept where FIRSTLIGHT_SCREENSHOTS says.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import firstlight as fl

pytestmark = pytest.mark.browser

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--virtual-time-budget=20000",
]
DARK = "--blink-settings=preferredColorScheme=0"

PROBE = """
<script>
const problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
</script>
"""

AXE = """
<script>
addEventListener("load", async () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
  const found = await axe.run(document, { resultTypes: ["violations"] });
  const told = ({ id, impact, nodes }) => ({ id, impact, where: nodes.map((node) => node.html) });
  tell(found.violations.map(told));
});
</script>
"""

POINTING = """
<script>
addEventListener("load", () => {
  const section = document.querySelector("[data-network]");
  const area = section.querySelector(".area"), frame = area.getBoundingClientRect();
  const place = { clientX: frame.left + 1, clientY: frame.top + 5, bubbles: true };
  area.dispatchEvent(new PointerEvent("pointermove", place));
  const first = section.querySelector("output").textContent;
  const slider = section.querySelector("input");
  slider.value = 1;
  slider.dispatchEvent(new Event("input"));
  const second = section.querySelector("output").textContent;
  const cursors = [...section.querySelectorAll(".cursor")].map((cursor) => cursor.style.left);
  tell({ first, second, cursors, problems, label: slider.getAttribute("aria-valuetext") });
});
</script>
"""

TELL = """
<script>
function tell(answer) {
  const box = document.createElement("pre");
  box.id = "answer";
  box.textContent = JSON.stringify(answer);
  document.body.append(box);
}
</script>
"""

PHONE = """<!doctype html>
<body style="margin:0"><iframe src="page.html" style="width:390px;height:800px;border:0"></iframe>
<script>
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument;
  for (const part of page.querySelectorAll("details")) part.open = true;
  const wide = [...page.querySelectorAll("body *")].filter((item) =>
    item.getBoundingClientRect().right > 391 && !item.closest(".scroll"));
  const sizes = [...page.querySelectorAll("p, td, th, .y span, .x span")].map((item) =>
    parseFloat(page.defaultView.getComputedStyle(item).fontSize));
  const told = wide.map((item) => item.outerHTML.slice(0, 120));
  const heads = [...page.querySelectorAll("body.several main > section table thead th")];
  const furthest = Math.max(0, ...heads.map((item) => item.getBoundingClientRect().right));
  const scroll = page.documentElement.scrollWidth, least = Math.min(...sizes);
  tell({ scroll, wide: told, least, furthest, heads: heads.length });
});
</script>"""


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM)} is installed; make test-browser installs one")
    return found


@pytest.fixture(scope="session")
def axe(tmp_path_factory) -> str:
    """The source of axe-core, out of the npm registry."""
    if shutil.which("npm") is None:
        pytest.skip("no npm: axe-core cannot be fetched; make test-browser installs it")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run(
            ["npm", "pack", "axe-core@4", "--silent"],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=120,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"axe-core could not be fetched: {error}")
    [archive] = folder.glob("axe-core-*.tgz")
    shutil.unpack_archive(archive, folder)
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(params=["diagnosis", "planted", "both", "large"])
def page(request, diagnosis, planted, make_profile) -> str:
    if request.param == "large":
        layers = [f"model.stages.{index // 100}.blocks.{index}.mlp.fc" for index in range(500)]
        return fl.report(make_profile(layers, labels=1000), format="html")
    noun = {"diagnosis": diagnosis, "planted": planted, "both": [planted, diagnosis]}[request.param]
    return fl.report(noun, format="html")


def run(chromium: str, folder: Path, *arguments: str) -> str:
    """What the browser prints; its profile is a fresh folder."""
    command = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout


def answer(chromium: str, folder: Path, text: str, *arguments: str):
    """What a page tells at its end."""
    place = folder / "asked.html"
    place.write_text(text, encoding="utf-8")
    dom = run(chromium, folder, *arguments, "--dump-dom", place.as_uri())
    found = re.search(r'<pre id="answer">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    return json.loads(html.unescape(found[1]))


def with_scripts(page: str, *scripts: str) -> str:
    """The page with probes at its beginning and end."""
    return page.replace("<head>", f"<head>{PROBE}{TELL}", 1).replace(
        "</body>", f"{''.join(scripts)}</body>", 1
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(chromium, axe, page, tmp_path, scheme):
    text = with_scripts(page, f"<script>{axe}</script>", AXE)
    found = answer(chromium, tmp_path, text, *([DARK] if scheme == "dark" else []))
    assert [item for item in found if item["impact"] in ("serious", "critical", "moderate")] == []


BROKEN = """<!doctype html><html lang="en"><head><title>x</title></head><body><main><h1>x</h1>
<p style="color:#ccc;background:#fff;font-size:5px;width:900px">pale, small and wide</p></main></body></html>"""


def test_the_checks_can_fail(chromium, axe, tmp_path):
    found = answer(chromium, tmp_path, with_scripts(BROKEN, f"<script>{axe}</script>", AXE))
    assert [item["id"] for item in found] == ["color-contrast"]
    (tmp_path / "page.html").write_text(BROKEN, encoding="utf-8")
    seen = answer(chromium, tmp_path, PHONE + TELL)
    assert (len(seen["wide"]), seen["least"]) == (1, 5)
    assert seen["scroll"] > 800


def test_pointing_at_a_layer_tells_its_numbers(chromium, measured, diagnosis, tmp_path):
    found = answer(chromium, tmp_path, with_scripts(fl.report(diagnosis, format="html"), POINTING))
    assert found["problems"] == []
    assert found["first"].startswith(f"{measured.layers[0]} (dense)bias, γ: ")
    assert found["second"].startswith(f"{measured.layers[1]} (")
    assert found["label"] == measured.layers[1]
    assert found["cursors"] == [found["cursors"][0]] * 4  # one place in all four panels
    assert float(found["cursors"][0].rstrip("%")) == pytest.approx(150 / len(measured.layers), abs=1e-3)


def test_names_that_mean_harm_do_none(chromium, planted, hostile, tmp_path):
    alarm = "<script>window.alert = (what) => problems.push(`alert ${what}`)</script>"
    text = with_scripts(fl.report(planted, format="html"), POINTING).replace("<head>", "<head>" + alarm, 1)
    found = answer(chromium, tmp_path, text)
    assert found["problems"] == []
    assert found["first"].startswith(f"{hostile}.0 (dense)")


def test_a_telephone_shows_it_without_scrolling_sideways(chromium, page, tmp_path):
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    found = answer(chromium, tmp_path, PHONE + TELL)
    assert found["wide"] == []
    assert found["scroll"] <= 390
    assert found["least"] >= 11


def test_a_telephone_shows_both_columns_of_a_comparison(chromium, diagnosis, planted, tmp_path):
    (tmp_path / "page.html").write_text(fl.report([planted, diagnosis], format="html"), encoding="utf-8")
    found = answer(chromium, tmp_path, PHONE + TELL)
    assert found["heads"] == 4  # two tables with a column for each network
    assert found["furthest"] <= 390


def test_it_prints_on_paper(chromium, diagnosis, tmp_path):
    place = fl.report(diagnosis, tmp_path / "page.html")
    run(
        chromium,
        tmp_path,
        f"--print-to-pdf={tmp_path / 'page.pdf'}",
        "--no-pdf-header-footer",
        place.as_uri(),
    )
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 10
    kept(tmp_path / "page.pdf")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screenshot_has_ink_in_it(chromium, page, tmp_path, scheme, request):
    place = tmp_path / "page.html"
    place.write_text(page, encoding="utf-8")
    picture = tmp_path / f"{request.node.callspec.id}.png"
    arguments = [f"--screenshot={picture}", "--window-size=1000,3000", *([DARK] if scheme == "dark" else [])]
    run(chromium, tmp_path, *arguments, place.as_uri())
    import matplotlib.image

    pixels = matplotlib.image.imread(picture)[..., :3]
    paper = pixels[5, 5].mean()
    assert paper < 0.15 if scheme == "dark" else paper > 0.95
    assert (abs(pixels - pixels[5, 5]) > 0.2).any(axis=2).mean() > 0.01
    kept(picture)


def kept(file: Path) -> None:
    """Copy what was seen where somebody will look at it."""
    if folder := os.environ.get("FIRSTLIGHT_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder)
