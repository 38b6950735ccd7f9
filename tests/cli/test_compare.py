"""``firstlight compare``: two archives in, the comparison that ``fl.compare`` makes out."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import firstlight as fl
from firstlight.cli.main import program

BLUEPRINT = fl.Blueprint.mlp(depth=2, width=60, inputs=40, norm="layer")


def run(*arguments: str):
    return CliRunner().invoke(program, ["compare", *arguments], prog_name="firstlight")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Archives of theory, measurement and a phase diagram."""
    folder = tmp_path_factory.mktemp("archives")
    fl.predict(BLUEPRINT).save(folder / "theory.nc")
    fl.measure(BLUEPRINT, "noise:samples=50,dimensions=40", inits=20, progress=False).save(
        folder / "measured.nc"
    )
    fl.phases("relu", depth=2).save(folder / "phases.nc")
    return folder


def test_it_is_what_the_function_finds(folder):
    done = run(str(folder / "theory.nc"), str(folder / "measured.nc"), "--seed", "5", "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    expected = fl.compare(fl.load(folder / "theory.nc"), fl.load(folder / "measured.nc"), seed=5)
    assert found["schema"] == "firstlight/comparison"
    assert found["variables"]["gamma_z"]["values"] == expected.z("gamma").values.tolist()
    assert found["guesses"]["p_value"] == expected.p_value
    assert found["unmatched"] == ["norm1", "norm2"]


def test_the_table_has_a_row_for_each_layer(folder):
    done = run(str(folder / "theory.nc"), str(folder / "measured.nc"))
    comparison = fl.compare(fl.load(folder / "theory.nc"), fl.load(folder / "measured.nc"))
    lines = done.stdout.splitlines()
    for layer, z in zip(["linear1", "linear2", "output"], comparison.z("gamma").values, strict=True):
        [row] = [line for line in lines if line.strip().startswith(f"{layer} ")]
        assert row.rstrip().endswith(f"{z:+.2f}")
    assert "Kolmogorov–Smirnov distance" in done.stdout
    assert max(map(len, lines)) <= 100


def test_it_is_saved_shown_and_drawn(folder, tmp_path):
    files = ["--save", str(tmp_path / "c.nc"), "--plot", str(tmp_path / "c.svg")]
    done = run(str(folder / "theory.nc"), str(folder / "measured.nc"), *files)
    assert done.stderr == f"wrote {tmp_path / 'c.nc'}\nwrote {tmp_path / 'c.svg'}\n"
    assert (tmp_path / "c.svg").read_text(encoding="utf-8").startswith("<?xml")
    shown = CliRunner().invoke(program, ["show", str(tmp_path / "c.nc")], prog_name="firstlight")
    assert shown.stdout == done.stdout


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("phases.nc", "phases.nc', which holds a phase_diagram"),
        ("gone.nc", "there is no such file"),
    ],
)
def test_mistakes_get_one_sentence(folder, reference, message):
    done = run(str(folder / reference), str(folder / "measured.nc"))
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
