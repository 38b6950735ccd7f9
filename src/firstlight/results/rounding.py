"""Numbers for readers: digits that the standard error supports, and no others.

Enters: values with standard errors, or logarithms of what float64 cannot hold. Leaves: short strings.
"""

from __future__ import annotations

import math

__all__ = ["number", "with_stderr"]


def number(value: float, *, log: float | None = None) -> str:
    """Four digits; where the value has over- or underflowed, its decimal power, from its natural logarithm.

    >>> [number(value) for value in (18.3905, 0.0, 12345.678, 1e-7, float("inf"), float("nan"))]
    ['18.39', '0', '1.235e+04', '1e-07', '∞', '–']
    >>> number(float("inf"), log=2000.0)
    '10^868.6'
    """
    if math.isnan(value):
        return "–"
    if log is not None and math.isfinite(log) and (math.isinf(value) or abs(value) < 1e-300):
        return f"10^{log / math.log(10):.1f}"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.4g}"


def with_stderr(value: float, stderr: float, *, gap: str = " ", log: float | None = None) -> str:
    """Value ± standard error, cut after the second digit of the error; the bare number without one.

    >>> with_stderr(18.3905, 1.234), with_stderr(0.46694, 0.00051), with_stderr(0.5, 0.0)
    ('18.4 ± 1.2', '0.46694 ± 0.00051', '0.5')
    >>> with_stderr(12346.0, 678.0)
    '1.235e+04 ± 6.8e+02'
    """
    if not (math.isfinite(value) and math.isfinite(stderr) and stderr > 0):
        return number(value, log=log)
    decimals = 1 - math.floor(math.log10(stderr))
    if float(f"{stderr:.1e}") >= 10 ** (2 - decimals):  # 0.0996 rounds up to 0.10
        decimals -= 1
    if -1 < decimals < 6 and abs(value) < 1e4:
        return f"{value:.{decimals}f}{gap}±{gap}{stderr:.{decimals}f}"
    digits = max(2, 2 + math.floor(math.log10(abs(value))) - math.floor(math.log10(stderr))) if value else 2
    return f"{value:.{min(digits, 6)}g}{gap}±{gap}{stderr:.2g}"
