from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import h5netcdf
import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.errors import CouldNotError, DataError, UsageError
from firstlight.results import archive
from firstlight.results.archive import Archive, load, save
from firstlight.results.comparison import Comparison
from firstlight.results.guess_law import GuessLaw
from firstlight.results.guesses import Guesses
from firstlight.results.labelled import Labelled, Variable, variable
from firstlight.results.phase_diagram import PhaseDiagram
from firstlight.results.profile import Profile
from firstlight.results.provenance import Coverage, CoverageEntry, Provenance

ORIGIN = Provenance(
    "measurement",
    "a <model> “ü”",
    "data",
    seed=7,
    mode="train",
    settings={"inits": 5, "nested": {"a": [1, None]}},
    notes=("one", "two"),
)
COUNTS = np.random.default_rng(0).multinomial(30, [0.5, 0.2, 0.2, 0.1], size=5)


def profile(guesses: Guesses | None = None) -> Profile:
    generator = np.random.default_rng(1)
    return Profile.from_layers(
        ["stem.conv", "stem.relu#2", "head"],
        {
            "gamma": [0.5, math.nan, 3.0],
            "gamma_stderr": [0.1, 0.2, 0.3],
            "gamma_init": generator.random((5, 3)),
            "log_mean_square": [0.0, -2000.0, 2000.0],
        },
        provenance=ORIGIN,
        coverage=Coverage(
            (CoverageEntry("stem.conv", "Conv2d", "measured"), CoverageEntry("x", "LSTM", "unseen", "why"))
        ),
        guesses=guesses,
        kinds=["convolution", "", "dense"],
        extra={
            "flags": variable("layer", [True, False, True]),
            "whole": variable("layer", np.array([1, -(2**62), 3])),
            "single": variable((), 2.5),
            "half": variable("layer", np.array([1, 2, 3], dtype=np.float32)),
            "large": variable(("init", "unit"), generator.random((5, 9000))),
        },
        coordinates={"note": variable((), "scalar text"), "init": variable("init", np.arange(5) * 10)},
    )


def assert_same_arrays(left: dict[str, Variable], right: dict[str, Variable]) -> None:
    assert list(left) == list(right) or sorted(left) == sorted(right)
    for name, item in left.items():
        other = right[name]
        assert item.dims == other.dims, name
        assert item.values.dtype == other.values.dtype, name
        assert item.values.shape == other.values.shape, name
        if item.values.dtype.kind == "f":
            assert item.values.tobytes() == other.values.tobytes(), name
        else:
            assert (item.values == other.values).all(), name


def assert_same(left: Labelled, right: Labelled) -> None:
    assert type(left) is type(right)
    assert_same_arrays(dict(left.variables), dict(right.variables))
    assert_same_arrays(dict(left.coordinates), dict(right.coordinates))
    assert left.provenance == right.provenance
    assert left.coverage == right.coverage


GUESSES = {
    "binary law": lambda: Guesses.from_law(GuessLaw(2.0)),
    "law beyond float64": lambda: Guesses.from_law(
        GuessLaw(math.inf, 3, log_gamma=900.0), samples=10, seed=3
    ),
    "point masses": lambda: Guesses.from_law(GuessLaw(math.inf, 4), draws=20),
    "counts": lambda: Guesses.from_counts(COUNTS, ties=np.full(5, 0.1), label_names=["a", "b", "ç", ""]),
    "leading labels": lambda: Guesses.from_counts(COUNTS, top=2),
    "draws": lambda: Guesses.from_draws(COUNTS / 30, samples=30, seed=4),
}


@pytest.mark.parametrize("make", GUESSES.values(), ids=GUESSES)
@pytest.mark.parametrize("inside", [True, False])
def test_guesses_come_back(tmp_path: Path, make, inside: bool) -> None:
    before = make()
    path = save(profile(before) if inside else before, tmp_path / "result.nc")
    after = load(path).guesses if inside else load(path)
    for name in ("labels", "law", "samples", "label_names", "draws", "seed", "source"):
        assert getattr(before, name) == getattr(after, name), name
    assert json.dumps(before.to_dict()) == json.dumps(after.to_dict())
    assert (before.fractions.values == after.fractions.values).all()
    assert before.bias.values.tolist() == after.bias.values.tolist()
    assert before.cdf(0.3) == after.cdf(0.3)
    assert repr(before) == repr(after)


def test_a_profile_comes_back_bit_by_bit(tmp_path: Path) -> None:
    before = profile()
    after = load(before.save(tmp_path / "profile.nc"))
    assert_same(before, after)
    assert after.guesses is None
    assert after.gamma.values[2] == 3
    assert not after.variables["gamma"].values.flags.writeable
    assert repr(before) == repr(after)


def test_a_phase_diagram_comes_back(tmp_path: Path) -> None:
    before = PhaseDiagram.from_axes(
        [1.0, 2.0],
        [0.1],
        {"slope": [[0.5], [1.5]], "regime": [["ordered"], ["chaotic"]], "gamma_star": [[math.inf], [0.2]]},
        depth=50,
        provenance=ORIGIN,
    )
    after = load(before.save(tmp_path / "phases.nc"))
    assert_same(before, after)
    assert after.depth == 50


def test_further_fields_go_along(tmp_path: Path) -> None:
    before = Comparison(
        {"gamma_z": variable("layer", [1.0])},
        {"layer": variable("layer", ["a"])},
        ORIGIN,
        distance=0.25,
        unmatched=("b", "c"),
    )
    after = load(before.save(tmp_path / "comparison.nc"))
    assert_same(before, after)
    assert (after.distance, after.unmatched, after.compared) == (0.25, ("b", "c"), "")
    assert math.isnan(after.p_value)


@settings(deadline=None, max_examples=25)
@given(
    numbers=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=6),
    words=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
        min_size=1,
        max_size=4,
    ),
)
def test_any_numbers_and_words_come_back(tmp_path_factory, numbers: list[float], words: list[str]) -> None:
    before = Profile(
        {"numbers": variable("unit", numbers), "words": variable("label", words)},
        {"layer": variable("layer", words)},
        ORIGIN,
    )
    after = load(before.save(tmp_path_factory.mktemp("any") / "x.nc"))
    assert_same(before, after)


def test_xarray_opens_the_file_and_sees_the_same(tmp_path: Path) -> None:
    import xarray as xr

    before = profile(GUESSES["counts"]())
    path = before.save(tmp_path / "profile.nc")
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        seen = opened.load()
    ours = before.dataset
    assert set(seen.coords) == set(ours.coords)
    assert set(seen.data_vars) == set(ours.data_vars)
    for name, quantity in ours.variables.items():
        assert seen[name].dims == quantity.dims
        if quantity.dtype.kind == "f":
            assert np.array_equal(seen[name].values, quantity.values, equal_nan=True)
        else:
            assert (seen[name].values == quantity.values).all()
    assert seen["flags"].dtype == bool
    assert json.loads(seen.attrs["provenance"])["model"] == ORIGIN.model
    with xr.open_dataset(path, engine="h5netcdf", group="guesses") as opened:
        assert (opened["counts"].values == COUNTS).all()


def test_archive_looks_without_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = profile(GUESSES["counts"]()).save(tmp_path / "profile.nc")
    monkeypatch.setattr(archive, "_read_array", lambda stored: pytest.fail("read an array"))
    look = Archive.open(path)
    assert (look.kind, look.schema, look.provenance) == ("profile", 1, ORIGIN)
    assert look.variables["gamma_init"] == (("init", "layer"), (5, 3))
    assert look.variables["guesses/counts"] == (("init", "column"), (5, 4))
    assert (
        repr(look)
        == f"<Archive profile.nc: profile of {ORIGIN.model} by measurement, {len(look.variables)} arrays, schema 1>"
    )
    monkeypatch.undo()
    assert_same(look.read(), load(path))


def test_large_provenance_fits(tmp_path: Path) -> None:
    entries = tuple(CoverageEntry(f"layer.{i}", "Linear", "measured", "x" * 50) for i in range(5000))
    before = Profile({}, {"layer": variable("layer", ["a"])}, ORIGIN, Coverage(entries))
    assert load(before.save(tmp_path / "x.nc")).coverage == before.coverage


def test_an_interrupted_save_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = profile().save(tmp_path / "profile.nc")
    kept = path.read_bytes()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "_write_array", stop)
    with pytest.raises(KeyboardInterrupt):
        profile().save(path)
    assert path.read_bytes() == kept
    assert os.listdir(tmp_path) == ["profile.nc"]


def rewritten(path: Path, **attributes: object) -> Path:
    with h5netcdf.File(path, "a") as file:
        for name, value in attributes.items():
            file.attrs[name] = value
    return path


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    good = profile(GUESSES["counts"]()).save(tmp_path / "good.nc")
    whole = good.read_bytes()

    def file(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    foreign = tmp_path / "foreign.h5"
    with h5py.File(foreign, "w") as other:
        other["x"] = [1.0]
    cases = [
        (tmp_path / "absent.nc", UsageError, "absent.nc.*no such file"),
        (tmp_path, UsageError, "is a folder"),
        (file("empty.nc", b""), DataError, "empty.nc.*not a netCDF4 file"),
        (file("text.nc", b"hello world"), DataError, "not a netCDF4 file.*hello wo"),
        (file("old.nc", b"CDF\x01" + bytes(40)), DataError, "netCDF3"),
        (foreign, DataError, "not one of firstlight's"),
        (file("short.nc", whole[: len(whole) // 2]), DataError, "cut short or damaged.*again"),
        (file("head.nc", whole[:8]), DataError, "cut short or damaged"),
        (
            rewritten(file("newer.nc", whole), firstlight_schema=np.int64(99)),
            CouldNotError,
            "schema 99.*up to 1.*upgrade",
        ),
        (
            rewritten(file("kind.nc", whole), firstlight_kind="oracle"),
            CouldNotError,
            "'oracle'.*does not know.*profile",
        ),
        (rewritten(file("json.nc", whole), provenance="{"), DataError, "damaged"),
        (rewritten(file("field.nc", whole), provenance="{}"), DataError, "damaged"),
    ]
    for path, error, words in cases:
        with pytest.raises(error, match=words):
            load(path)
    assert Archive.open(tmp_path / "newer.nc").schema == 99
    assert Archive.open(tmp_path / "kind.nc").kind == "oracle"


@pytest.mark.parametrize("share", [0.1, 0.35, 0.6, 0.85, 0.99])
def test_every_truncation_is_noticed(tmp_path: Path, share: float) -> None:
    whole = profile(GUESSES["counts"]()).save(tmp_path / "good.nc").read_bytes()
    short = tmp_path / "short.nc"
    short.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DataError, match="cut short or damaged"):
        load(short)


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    labels = {"layer": variable("layer", ["a"])}
    cases = [
        (3.0, tmp_path / "x.nc", "expected one of the results.*profile.*float"),
        (profile(), tmp_path, "is a folder"),
        (profile(), tmp_path / "no" / "x.nc", "no folder"),
        (
            Profile({"x": variable("layer", [None])}, labels, ORIGIN),
            tmp_path / "x.nc",
            "'x' holds objects that are no strings",
        ),
        (
            Profile({"x": variable("layer", [1j])}, labels, ORIGIN),
            tmp_path / "x.nc",
            "'x' has type complex128",
        ),
        (
            Profile({"x": variable("layer", [1, 2])}, labels, ORIGIN),
            tmp_path / "x.nc",
            "'x' has 2 points along 'layer'.*1",
        ),
        (
            Profile({}, labels, Provenance("theory", "m", "d", settings={"f": load})),
            tmp_path / "x.nc",
            "provenance holds a function",
        ),
    ]
    for noun, path, words in cases:
        with pytest.raises(UsageError, match=words):
            save(noun, path)
    assert not (tmp_path / "x.nc").exists()


def test_every_kind_has_its_class() -> None:
    from importlib import import_module

    for kind, home in archive.KINDS.items():
        module, _, name = home.partition(":")
        assert getattr(import_module(module), name).kind == kind


HEAVY = ("torch", "xarray", "pandas", "matplotlib")


def heavy_after(code: str) -> list[str]:
    report = f"import sys; print('|'.join(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.splitlines()[-1].split("|") if name]


def test_reading_imports_nothing_heavy(tmp_path: Path) -> None:
    path = str(profile(GUESSES["leading labels"]()).save(tmp_path / "x.nc"))
    reading = f"import firstlight as fl; found = fl.load({path!r})"
    assert (
        heavy_after(f"{reading}; repr(found); found._repr_html_(); found.to_dict(); found.guesses.cdf(0.5)")
        == []
    )
    assert heavy_after(f"{reading}; found.gamma") == ["xarray", "pandas"]  # the check can fail


def test_no_pickle() -> None:
    import ast

    import firstlight.results as room

    for path in Path(room.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            )
            assert not {"pickle", "marshal", "shelve", "dill"} & set(names), path
