"""Write ``generated/notation.md`` from the registry of quantities, so that the page cannot fall behind the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firstlight.results.quantities import AXES, QUANTITIES

HEAD = """# Notation

Four papers use four notations for one object. This page is generated from `firstlight.results.quantities`, which
the code itself reads; each name is an attribute of a `Profile` and a variable of its dataset.

| symbol | name | meaning | in the papers | kept as a logarithm too |
|---|---|---|---|---|
"""

TAIL = """
The axes of every array have names from one vocabulary: {axes}.

A quantity `q` may come with companions: `log_q`, its natural logarithm, finite where `q` itself has outgrown double
precision; `q_stderr`, its standard error over initializations; `q_median`, the median over initializations of the
per-initialization value; `q_init`, the per-initialization values.

The capital letters of the formulas:

| symbol | meaning |
|---|---|
| $u$ | pre-activation of a layer |
| $\\varphi$ | activation |
| $\\sigma_w^2$, $\\sigma_b^2$ | weights are $N(0, \\sigma_w^2/\\text{{fan-in}})$, biases $N(0, \\sigma_b^2)$ |
| $C$, $V$ | centre variance, data variance |
| $\\gamma = C/V$ | prejudice |
| $q = C + V$ | mean square |
| $c = C/q$ | correlation of two inputs |
| $G_c$ | fraction of the data that an untrained network assigns to class $c$ |
| $\\chi_1$ | slope of the correlation map at $c = 1$ |
"""


def notation() -> str:
    """The page as MyST Markdown."""
    rows = [
        f"| {cell(quantity.symbol)} | `{quantity.name}` | {cell(quantity.meaning)} | {cell(quantity.papers)} | "
        f"{'yes' if quantity.logarithm else ''} |"
        for quantity in QUANTITIES.values()
    ]
    return HEAD + "\n".join(rows) + "\n" + TAIL.format(axes=", ".join(f"`{axis}`" for axis in AXES))


def cell(text: str) -> str:
    """Text that cannot end its cell or start emphasis in it."""
    for character in "|*_^":
        text = text.replace(character, "\\" + character)
    return text


def write(app: Any) -> None:
    """Write the page beside the others, if it has changed."""
    target = Path(app.srcdir) / "generated" / "notation.md"
    target.parent.mkdir(exist_ok=True)
    text = notation()
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
