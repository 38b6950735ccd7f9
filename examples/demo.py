"""Predict and measure the same networks, with the norm before and after the activation; write one page.

    python examples/demo.py --out demo

Theory says how an untrained perceptron distributes its guesses; then many initializations of the real module are run
on Gaussian data, and the fractions that they guess are laid under the theory.
"""

from __future__ import annotations

import argparse
import io
import time
from pathlib import Path

import torch

import firstlight as fl
from firstlight.plots.gamma_by_depth import plot_gamma_by_depth
from firstlight.plots.guess_law import plot_guess_law
from firstlight.results.rounding import with_stderr

NETWORKS = {
    "no norm": {},
    "layer norm before": {"norm": "layer", "placement": "before"},
    "layer norm after": {"norm": "layer", "placement": "after"},
    "batch norm before": {"norm": "batch", "placement": "before"},
    "batch norm after": {"norm": "batch", "placement": "after"},
}

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>What an untrained network believes</title>
<style>
  body {{ font: 16px/1.5 Georgia, serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
  table {{ border-collapse: collapse; margin: 1rem 0; }}
  th, td {{ padding: .3rem 1rem .3rem 0; text-align: left; border-bottom: 1px solid #ddd; }}
  .figures {{ display: flex; flex-wrap: wrap; gap: 1rem; }}
  .figures svg {{ width: 28rem; max-width: 100%; height: auto; }}
</style>
<h1>What an untrained network believes</h1>
<p>Perceptrons with {depth} hidden layers of {width} ReLU units, before any training, on Gaussian data without any
class in it. Each draw of the weights has its favourite class; how strong the favour is depends on where the norm
stands.</p>
<table>
<tr><th>network<th>γ, theory<th>γ, measured<th>largest share, theory<th>largest share, measured<th>regime</tr>
{rows}
</table>
<p>γ is the ratio of centre variance to data variance of the outputs: above 1, the typical untrained network puts
most data into one class. Measured over {inits} initializations on {samples:,} points, ± one standard error; theory
is for infinite width. Counted on so many points, even a neutral network's largest share is {null:.3f} on average.</p>
<div class="figures">{figures}</div>
"""


def main() -> None:
    """Predict, measure, draw, write."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=Path, default=Path("demo"))
    arguments.add_argument("--inits", type=int, default=200)
    arguments.add_argument("--samples", type=int, default=500)
    arguments.add_argument("--depth", type=int, default=10)
    arguments.add_argument("--width", type=int, default=128)
    options = arguments.parse_args()
    began = time.monotonic()
    torch.set_num_threads(1)  # the networks are small: more threads would wait for each other

    data = torch.randn(options.samples, 100, generator=torch.Generator().manual_seed(0))
    theory, measured = {}, {}
    print("network             γ theory, γ measured, largest share in theory, measured, regime")
    for name, norm in NETWORKS.items():
        blueprint = fl.Blueprint.mlp(inputs=100, depth=options.depth, width=options.width, **norm)
        theory[name] = fl.predict(blueprint, samples=options.samples)
        measured[name] = fl.measure(
            blueprint,
            data,
            inits=options.inits,
            seed=0,
            quantities=["gamma", "guesses"],
            layers=["linear*", "output"],
            progress=False,
        )
        print(f"{name:18s}", *row(theory[name], measured[name]), sep="  ")

    neutral = theory["no norm"].guesses.null.mean_max
    figures = [
        plot_guess_law(theory[name], measured[name], labels=[f"{name}, theory", f"{name}, measured"])
        for name in ("layer norm before", "batch norm before", "layer norm after")
    ]
    figures.append(plot_gamma_by_depth(*theory.values(), labels=list(theory)))
    page = PAGE.format(
        depth=options.depth,
        width=options.width,
        inits=options.inits,
        samples=options.samples,
        null=neutral,
        rows="\n".join(
            "<tr>" + "".join(f"<td>{cell}" for cell in (name, *row(theory[name], measured[name]))) + "</tr>"
            for name in NETWORKS
        ),
        figures="\n".join(as_svg(figure) for figure in figures),
    )
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / "index.html"
    target.write_text(page, encoding="utf-8")
    print(f"{time.monotonic() - began:.0f} s; open {target}")


def row(theory: fl.Profile, measured: fl.Profile) -> list[str]:
    """γ at the output and the average largest share, by theory and as measured, and the regime."""
    law, greatest = theory.guesses.law, measured.guesses.max.values
    gamma, stderr = (float(measured[name][-1]) for name in ("gamma", "gamma_stderr"))
    return [
        f"{law.gamma:.3g}",
        with_stderr(gamma, stderr),
        f"{float(theory.guesses.ranked[0]):.3f}",
        with_stderr(greatest.mean(), greatest.std(ddof=1) / len(greatest) ** 0.5),
        law.regime,
    ]


def as_svg(figure: object) -> str:
    """The drawing alone, to stand inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


if __name__ == "__main__":
    main()
