"""Compute reference values of Gaussian averages, independently of the package, and write them to reference.json.

For ``u_a, u_b ~ N(0, q)`` with correlation ``c = γ/(1 + γ)`` and every activation:
``M = E φ``, ``S2 = E φ²``, ``gain = E φ'²``, ``B = E φ(u_a)φ(u_b) − M²``, ``V = S2 − E φ(u_a)φ(u_b)``.

Two routes, neither of which the package takes:

- Where the smoothed activation ``f(m) = E φ(m + √V x)`` is elementary (with erf), ``B = E_m f² − M²`` and
  ``V = S2 − E_m f²`` are one-dimensional integrals, done by mpmath in 40 digits, so that the differences cost nothing.
- Elsewhere, in 64-bit-mantissa arithmetic (numpy.longdouble), ``V = ½ E (φ(s + h) − φ(s − h))²`` over half the sum and
  half the difference of the pair, and ``B = ¼ E [(f(m) − f(−m))² + (f(m) + f(−m) − 2M)²]``, on dense fixed panels;
  kept only if ``B + V = Var φ`` to 1e-14.

Run it with ``python make_reference.py``; it takes about a quarter of an hour on two idle cores.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np

VARIANCES = ("1e-6", "1e-2", "1", "3", "100", "1e4")
GAMMAS = ("1e-6", "0.1", "1", "1e3", "1e6")
DIGITS = 40


# --- activations whose smoothed form is elementary: pieces of polynomial × exponential between kinks -----------------


def pieces_of(name):
    """Return [(low, high, polynomial coefficients, [(factor, rate), …])]: Σ p_k u^k + Σ f e^(r u) on each interval."""
    inf, zero = mp.inf, mp.mpf(0)
    scale, alpha = mp.mpf("1.0507009873554804934193349852946"), mp.mpf("1.6732632423543772848170429916717")
    return {
        "linear": [(-inf, inf, [0, 1], [])],
        "relu": [(zero, inf, [0, 1], [])],
        "leaky_relu": [(-inf, zero, [0, mp.mpf(0.01)], []), (zero, inf, [0, 1], [])],
        "abs": [(-inf, zero, [0, -1], []), (zero, inf, [0, 1], [])],
        "shifted_relu": [
            (-inf, zero, [-1 / mp.sqrt(2 * mp.pi)], []),
            (zero, inf, [-1 / mp.sqrt(2 * mp.pi), 1], []),
        ],
        "hardtanh": [(-inf, -1, [-1], []), (-1, 1, [0, 1], []), (1, inf, [1], [])],
        "relu6": [(zero, 6, [0, 1], []), (6, inf, [6], [])],
        "hardsigmoid": [(-3, 3, [mp.mpf(1) / 2, mp.mpf(1) / 6], []), (3, inf, [1], [])],
        "hardswish": [(-3, 3, [0, mp.mpf(1) / 2, mp.mpf(1) / 6], []), (3, inf, [0, 1], [])],
        "elu": [(-inf, zero, [-1], [(1, 1)]), (zero, inf, [0, 1], [])],
        "selu": [(-inf, zero, [-scale * alpha], [(scale * alpha, 1)]), (zero, inf, [0, scale], [])],
    }[name]


def normal_moments(low, high, degree):
    """Return ∫ x^k n(x) dx between two bounds for k = 0 … degree, by the recurrence of partial moments."""
    at_low, at_high = (mp.npdf(x) if mp.isfinite(x) else mp.mpf(0) for x in (low, high))
    values = [mp.ncdf(high) - mp.ncdf(low) if high <= 0 else mp.ncdf(-low) - mp.ncdf(-high), at_low - at_high]
    for k in range(2, degree + 1):
        ends = (x ** (k - 1) * density if density else 0 for x, density in ((low, at_low), (high, at_high)))
        values.append((k - 1) * values[k - 2] + next(ends) - next(ends))
    return values


def smoothed_pieces(name):
    pieces = pieces_of(name)

    def smoothed(m, deviation):
        total = mp.mpf(0)
        for low, high, polynomial, exponentials in pieces:
            a, b = (low - m) / deviation, (high - m) / deviation
            moments = normal_moments(a, b, len(polynomial))
            for k, p in enumerate(polynomial):  # (m + deviation·x)^k
                if p:
                    powers = (
                        mp.binomial(k, j) * m ** (k - j) * deviation**j * moments[j] for j in range(k + 1)
                    )
                    total += p * sum(powers)
            for factor, rate in exponentials:
                shift = rate * deviation
                total += factor * mp.exp(rate * m + shift**2 / 2) * normal_moments(a - shift, b - shift, 0)[0]
        return total

    return smoothed


def value_pieces(name):
    pieces = pieces_of(name)

    def value(u):
        for low, high, polynomial, exponentials in pieces:
            if low < u <= high:
                return mp.polyval(polynomial[::-1], u) + sum(f * mp.exp(r * u) for f, r in exponentials)
        return mp.mpf(0)

    def slope(u):
        for low, high, polynomial, exponentials in pieces:
            if low < u <= high:
                powers = sum(k * p * u ** (k - 1) for k, p in enumerate(polynomial) if k)
                return powers + sum(f * r * mp.exp(r * u) for f, r in exponentials)
        return mp.mpf(0)

    return value, slope


SMOOTHED = {
    "sin": (mp.sin, mp.cos, lambda m, d: mp.exp(-d * d / 2) * mp.sin(m)),
    "cos": (mp.cos, lambda u: -mp.sin(u), lambda m, d: mp.exp(-d * d / 2) * mp.cos(m)),
    "erf": (
        mp.erf,
        lambda u: 2 / mp.sqrt(mp.pi) * mp.exp(-u * u),
        lambda m, d: mp.erf(m / mp.sqrt(1 + 2 * d * d)),
    ),
    "gelu": (
        lambda u: u * mp.ncdf(u),
        lambda u: mp.ncdf(u) + u * mp.npdf(u),
        lambda m, d: (
            m * mp.ncdf(m / mp.sqrt(1 + d * d)) + d * d / mp.sqrt(1 + d * d) * mp.npdf(m / mp.sqrt(1 + d * d))
        ),
    ),
}
PIECEWISE = (
    *("linear", "relu", "leaky_relu", "abs", "shifted_relu"),
    *("hardtanh", "relu6", "hardsigmoid", "hardswish", "elu", "selu"),
)


def exact(name, variance, gamma):
    """Return the five averages by one-dimensional integrals in 40 digits."""
    mp.mp.dps = DIGITS
    q, g = mp.mpf(variance), mp.mpf(gamma)
    if name in SMOOTHED:
        value, slope, smoothed = SMOOTHED[name]
        kinks = [mp.mpf(0)]
    else:
        value, slope = value_pieces(name)
        smoothed = smoothed_pieces(name)
        kinks = sorted(
            {end for piece in pieces_of(name) for end in piece[:2] if mp.isfinite(end)} | {mp.mpf(0)}
        )
    sigma, outer, inner = mp.sqrt(q), mp.sqrt(q * g / (1 + g)), mp.sqrt(q / (1 + g))

    def average(function, deviation, narrow):
        reach = 16 * deviation
        ends = (
            {sign * deviation * k for sign in (-1, 1) for k in (1, 2, 3, 4, 6, 8, 11, 16)}
            | set(kinks)
            | {mp.mpf(0)}
        )
        ends |= {kink + sign * narrow * k for kink in kinks for sign in (-1, 1) for k in (1, 2, 4, 7, 11, 16)}
        ends |= {
            kink + sign * k for kink in kinks for sign in (-1, 1) for k in (0.3, 1, 2, 3.5, 6, 10, 20, 50)
        }
        ends = sorted(end for end in ends if abs(end) <= reach)
        return mp.quad(
            lambda u: function(u) * mp.npdf(u / deviation) / deviation,
            ends,
            maxdegree=6,
            method="gauss-legendre",
        )

    mean = average(value, sigma, sigma)
    square = average(lambda u: value(u) ** 2, sigma, sigma)
    gain = average(lambda u: slope(u) ** 2, sigma, sigma)
    joint = average(lambda m: smoothed(m, inner) ** 2, outer, inner)
    return mean, square, gain, joint - mean**2, square - joint


# --- the others, by dense panels in extended precision ---------------------------------------------------------------

LONG = np.longdouble
PI = LONG("3.14159265358979323846264338327950288")


def logistic(u):
    e = np.exp(-np.abs(u))
    return np.where(u >= 0, 1 / (1 + e), e / (1 + e))


def softplus(u):
    return np.maximum(u, 0) + np.log1p(np.exp(-np.abs(u)))


def gate(u):
    return 2 * np.sqrt(2 / PI) * (u + LONG("0.044715") * u**3)


def mish(u):
    return u * np.tanh(softplus(u))


EXTENDED = {
    "tanh": (np.tanh, lambda u: 1 / np.cosh(np.clip(u, -5000, 5000)) ** 2),
    "sigmoid": (logistic, lambda u: logistic(u) * logistic(-u)),
    "silu": (lambda u: u * logistic(u), lambda u: logistic(u) * (1 + u * logistic(-u))),
    "softplus": (softplus, logistic),
    "gelu_tanh": (
        lambda u: u * logistic(gate(u)),
        lambda u: (
            logistic(gate(u))
            * (1 + u * logistic(-gate(u)) * 2 * np.sqrt(2 / PI) * (1 + 3 * LONG("0.044715") * u**2))
        ),
    ),
    "mish": (
        mish,
        lambda u: np.tanh(softplus(u)) + u * logistic(u) / np.cosh(np.clip(softplus(u), 0, 5000)) ** 2,
    ),
    "softsign": (lambda u: u / (1 + np.abs(u)), lambda u: 1 / (1 + np.abs(u)) ** 2),
}


@cache
def legendre(order=24):
    mp.mp.dps = 30
    rough, _ = np.polynomial.legendre.leggauss(order)
    nodes = [mp.findroot(lambda x: mp.legendre(order, x), x) for x in rough]
    weights = [2 * (1 - x * x) / ((order + 1) * mp.legendre(order + 1, x)) ** 2 for x in nodes]
    return np.array([LONG(mp.nstr(x, 25)) for x in nodes]), np.array([LONG(mp.nstr(w, 25)) for w in weights])


def composite(edges):
    at, weight = legendre()
    half = np.diff(edges, axis=-1)[..., None] / 2
    nodes = (edges[..., :-1, None] + half) + half * at
    return nodes.reshape(*edges.shape[:-1], -1), (half * weight).reshape(*edges.shape[:-1], -1)


def density(x, deviation):
    return np.exp(-((x / deviation) ** 2) / 2) / deviation / np.sqrt(2 * PI)


_FEATURES = (0.25, 0.5, 0.8, 1.2, 1.7, 2.3, 3, 4, 5, 6.5, 8, 10, 13, 17, 22, 29, 40, 60, 100, 200, 400, 800)
_REACH = (0.5, 1, 1.5, 2, 2.5, 3, 3.6, 4.3, 5, 6, 7, 8.5, 10, 12)
FEATURES, REACH = (np.array([0, *ends, *(-end for end in ends)], dtype=LONG) for ends in (_FEATURES, _REACH))


def extended(name, variance, gamma):
    """Return the five averages on dense panels in extended precision."""
    value, slope = EXTENDED[name]
    q, g = LONG(variance), LONG(gamma)
    c, rho = g / (1 + g), 1 / (1 + g)
    sigma = np.sqrt(q)

    def panels(deviation, narrow):
        ends = np.concatenate([FEATURES, deviation * REACH, narrow * REACH])
        return composite(np.unique(ends[np.abs(ends) <= 12 * deviation]))

    u, weight = panels(sigma, sigma)
    weight = weight * density(u, sigma)
    at_zero = value(np.zeros(1, dtype=LONG))[0]
    shifted = value(u) - at_zero
    excess = (weight * shifted).sum()
    variance_ = (weight * (shifted - excess) ** 2).sum()
    gain = (weight * slope(u) ** 2).sum()

    def inner_edges(place, deviation, low):
        """Panel ends of one average per place: those of the normal density and where a feature of φ is met."""
        fixed = deviation * REACH[low <= REACH]
        met = np.concatenate([FEATURES - place[:, None], place[:, None] - FEATURES], axis=1)
        met = np.clip(met, low * deviation, 12 * deviation)
        ends = np.concatenate([met, np.broadcast_to(fixed, (len(place), len(fixed)))], axis=1)
        return np.sort(ends, axis=1)

    across, along = np.sqrt(q * (1 + c) / 2), np.sqrt(q * rho / 2)  # of s and of h
    s, s_weight = panels(across, along)
    s_weight = s_weight * density(s, across)
    outer, inner = np.sqrt(q * c), np.sqrt(q * rho)
    m, m_weight = panels(outer, inner)
    m, m_weight = m[m >= 0], (m_weight * density(m, outer))[m >= 0]
    fallen = spread = LONG(0)
    for part in np.array_split(np.arange(len(s)), max(1, len(s) // 64)):
        h, h_weight = composite(inner_edges(s[part], along, 0))
        h_weight = 2 * h_weight * density(h, along)
        place = s[part, None]
        fallen += s_weight[part] @ (h_weight * (value(place + h) - value(place - h)) ** 2).sum(axis=1) / 2
    for part in np.array_split(np.arange(len(m)), max(1, len(m) // 64)):
        x, x_weight = composite(inner_edges(m[part], inner, -12))
        x_weight = x_weight * density(x, inner)
        right = (x_weight * (value(m[part, None] + x) - at_zero)).sum(axis=1)
        left = (x_weight * (value(-m[part, None] + x) - at_zero)).sum(axis=1)
        spread += m_weight[part] @ ((right - left) ** 2 + (right + left - 2 * excess) ** 2) / 2
    defect = abs(spread + fallen - variance_) / variance_
    mean = at_zero + excess
    return mean, mean**2 + variance_, gain, spread, fallen, defect


def one(task):
    name, variance, gamma = task
    if name in EXTENDED:
        *values, defect = extended(name, variance, gamma)
        assert defect < 1e-14, (task, defect)
        return task, [np.format_float_scientific(x, precision=17) for x in values]
    return task, [mp.nstr(x, 20) for x in exact(name, variance, gamma)]


def tasks():
    for name in sorted([*PIECEWISE, *SMOOTHED, *EXTENDED]):
        for variance in VARIANCES:
            if name in ("sin", "cos") and float(variance) > 3:
                continue  # B falls like exp(−ρq): the closed form is all there is to compare
            for gamma in GAMMAS:
                yield name, variance, gamma


def main() -> None:
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for (name, variance, gamma), values in pool.map(one, tasks(), chunksize=4):
            rows.append([name, float(variance), float(gamma), *(float(x) for x in values)])
            print(*rows[-1], flush=True)
    text = ",\n".join(json.dumps(row) for row in rows)
    columns = json.dumps(["activation", "q", "gamma", "mean", "mean_square", "gain", "spread", "fallen"])
    path = Path(__file__).with_name("reference.json")
    path.write_text(f'{{"columns": {columns},\n"rows": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
