"""Opening the package, asking for help and reading an archive stay light: no torch, pandas, matplotlib."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["torch", "pandas", "xarray", "matplotlib", "plotly", "transformers"]


def heavy_after(code: str) -> str:
    """The heavy packages that a fresh interpreter holds after ``code``, as printed."""
    report = f"import sys; print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return done.stderr.strip().splitlines()[-1]


ASK_FOR_HELP = """
import sys
from firstlight.cli.main import main
sys.argv = ["firstlight", {arguments}]
try:
    main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
"""


def test_the_check_can_fail():
    assert heavy_after("import pandas") == "['pandas']"


@pytest.mark.parametrize(
    "code", ["import firstlight", "import firstlight; dir(firstlight)", "import firstlight.results"]
)
def test_importing_the_package(code):
    assert heavy_after(code) == "[]"


VERBS = ("audit", "predict", "measure", "compare", "phases", "track", "reproduce", "report", "show")


@pytest.mark.parametrize("arguments", ['"--help"', '"--version"', *(f'"{verb}", "--help"' for verb in VERBS)])
def test_asking_for_help(arguments):
    assert heavy_after(ASK_FOR_HELP.format(arguments=arguments)) == "[]"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    import firstlight as fl

    blueprint = fl.Blueprint.mlp(inputs=10, depth=3, width=10, classes=2, activation="relu")
    return fl.predict(blueprint).save(tmp_path_factory.mktemp("archive") / "profile.nc")


def test_reading_an_archive(archive):
    assert heavy_after(f"import firstlight as fl; print(fl.load({str(archive)!r}))") == "[]"


def test_showing_an_archive(archive):
    assert heavy_after(ASK_FOR_HELP.format(arguments=f'"show", {str(archive)!r}')) == "[]"


@pytest.mark.parametrize("options", ["", ', "--json"'])
def test_predicting_at_the_command_line_needs_no_plots(options):
    seen = heavy_after(ASK_FOR_HELP.format(arguments=f'"predict", "mlp:depth=2"{options}'))
    assert "matplotlib" not in seen
    assert "plotly" not in seen
