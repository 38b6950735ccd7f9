"""Numbers for people: each is rounded here, once, and then only copied.

Enters: a value with an interval. Leaves: a short string whose digits the interval supports. Shares are written in
percent.
"""

from __future__ import annotations

import math

from firstlight.results.rounding import number, with_stderr

__all__ = ["amount", "as_share", "inits_to_decide", "plain", "share_with_stderr"]


def plain(value: float, *, share: bool = False) -> str:
    """One number without an interval, in percent where it is a share.

    >>> plain(1.0), plain(0.05, share=True), plain(2.302585)
    ('1', '5 %', '2.303')
    """
    return as_share(value) if share else number(value)


def as_share(value: float) -> str:
    """A fraction in percent, three digits.

    >>> as_share(0.92741), as_share(1.0), as_share(0.00012)
    ('92.7 %', '100 %', '0.012 %')
    """
    return number(value) if not math.isfinite(value) else f"{100 * value:.3g} %"


def amount(value: float, low: float, high: float, *, share: bool = False) -> str:
    """A value with its interval, cut after the second digit of the distance to its nearer end.

    >>> amount(18.3905, 16.21, 20.83)
    '18.4 (16.2 to 20.8)'
    >>> amount(0.9274, 0.9011, 0.9502, share=True)
    '92.7 % (90.1 to 95.0 %)'
    >>> amount(0.5, float("nan"), float("nan")), amount(0.0, 0.0, 0.0)
    ('0.5', '0')
    >>> amount(0.4, 0.017, 9.5), amount(1e-9, 0.0, 0.001)
    ('0.40 (0.02 to 9.50)', '1e-09 (0 to 0.001)')
    >>> amount(3.2e12, 1.1e11, 7.7e14)
    '3.2e+12 (1.1e+11 to 7.7e+14)'
    """
    if not (math.isfinite(value) and math.isfinite(low) and math.isfinite(high)) or low == high:
        bounded = not (math.isnan(low) or math.isnan(high) or low == high)
        reach = f" ({plain(low, share=share)} to {plain(high, share=share)})" if bounded else ""
        return f"{plain(value, share=share)}{reach}"
    scale, unit = (100.0, " %") if share else (1.0, "")
    reaches = [reach for reach in (value - low, high - value) if reach > 0] or [high - low]
    shown = [_cut(scale * item, scale * min(reaches)) for item in (value, low, high)]
    return f"{shown[0]}{unit} ({shown[1]} to {shown[2]}{unit})"


def share_with_stderr(fraction: float, stderr: float) -> str:
    """A fraction in percent with its standard error.

    >>> share_with_stderr(0.349, 0.0231), share_with_stderr(0.5, float("nan")), share_with_stderr(1.0, 0.0)
    ('34.9 ± 2.3 %', '50 %', '100 %')
    """
    return f"{with_stderr(round(100 * fraction, 12), 100 * stderr)} %"


def inits_to_decide(inits: int, value: float, low: float, high: float, threshold: float) -> int | None:
    """How many initializations would bring the threshold out of the interval, if the value stays where it is.

    An interval shrinks as 1/√N. Answers None where the value sits so near the threshold that a hundred times as many
    would not do, or where it is not inside.

    >>> inits_to_decide(100, 1.2, 0.8, 1.6, 1.0)
    480
    """
    distance = abs(value - threshold)
    reach = (value - low) if threshold < value else (high - value)
    if not (math.isfinite(distance) and math.isfinite(reach) and distance > 0 and reach >= distance):
        return None
    needed = (
        1.2 * inits * (reach / distance) ** 2
    )  # a fifth more, because the value will move a little as well
    if needed > 100 * inits:
        return None
    step: int = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return max(inits + 1, step * math.ceil(round(needed / step, 6)))


def _cut(value: float, reach: float) -> str:
    decimals = 1 - math.floor(math.log10(reach))
    if decimals < 7 and abs(value) < 1e4:
        return f"{value:.{max(0, decimals)}f}"
    return f"{value:.2g}" if decimals < 7 else number(value)
