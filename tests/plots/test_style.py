"""The house style touches the figures made inside it and nothing else."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import pytest

from firstlight.plots.style import PALETTE, house_style, new_figure, series_styles


def test_global_settings_are_left_alone():
    before = dict(mpl.rcParams)
    with house_style():
        assert mpl.rcParams["mathtext.fontset"] == "stix"
        figure, axes = new_figure()
    assert dict(mpl.rcParams) == before
    assert axes.xaxis.label.get_fontfamily()[0] == "STIXGeneral"
    assert figure.get_size_inches()[0] == 3.5


def test_settings_come_back_after_a_failure():
    before = dict(mpl.rcParams)
    with pytest.raises(ZeroDivisionError), house_style():
        raise ZeroDivisionError
    assert dict(mpl.rcParams) == before


def test_no_window_system_is_asked_for():
    import sys

    assert "matplotlib.pyplot" not in sys.modules or mpl.get_backend().lower() == "agg"


def test_neighbouring_series_differ_in_everything():
    for one, other in itertools.pairwise(series_styles(12)):
        assert one.color != other.color
        assert one.linestyle != other.linestyle
        assert one.marker != other.marker


def test_twelve_series_are_all_different():
    assert len(set(series_styles(12))) == 12


def luminance(color: str) -> float:
    """Relative luminance of WCAG 2."""
    channels = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_lines_stand_out_on_white():
    """A contrast of 2 to 1 at least; yellow (1.2 to 1) is left to fills."""
    for style in series_styles(7):
        assert 1.05 / (luminance(style.color) + 0.05) > 2.0
    assert PALETTE["yellow"] not in {style.color for style in series_styles(20)}
