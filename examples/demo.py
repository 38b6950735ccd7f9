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

import numpy as np
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
is for infinite width and infinitely many points (counted on {samples:,} points, even a neutral network's largest share
is {null:.3f} on average).</p>
<div class="figures">{figures}</div>
"""


def main() -> None:
    """Predict, measure, draw, write."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=Path, default=Path("demo"))
    arguments.add_argument("--inits", type=int, default=100)
    arguments.add_argument("--samples", type=int, default=500)
    arguments.add_argument("--depth", type=int, default=10)
    arguments.add_argument("--width", type=int, default=128)
    options = arguments.parse_args()
    began = time.monotonic()
    torch.set_num_threads(1)  # the networks are small: more threads would wait for each other

    data = torch.randn(options.samples, 100, generator=torch.Generator().manual_seed(0))
    profiles, rows = {}, []
    for name, norm in NETWORKS.items():
        blueprint = fl.Blueprint.mlp(inputs=100, depth=options.depth, width=options.width, **norm)
        profile = profiles[name] = fl.predict(blueprint)
        law = profile.guesses.law
        gamma, largest = measure(blueprint, data, options.inits)
        rows.append(
            [
                name,
                f"{law.gamma:.3g}",
                with_stderr(*gamma),
                f"{law.mean_max:.3f}",
                with_stderr(*largest),
                law.regime,
            ]
        )
        print(f"{name:20s} γ theory {rows[-1][1]:>6s}  measured {rows[-1][2]:14s}  {law.regime}")

    figures = [
        plot_guess_law(*profiles.values(), labels=list(profiles)),
        plot_gamma_by_depth(*profiles.values(), labels=list(profiles)),
    ]
    page = PAGE.format(
        depth=options.depth,
        width=options.width,
        inits=options.inits,
        samples=options.samples,
        null=0.5 + 1 / np.sqrt(2 * np.pi * options.samples),  # E|k/D - 1/2| of k ~ Binomial(D, 1/2)
        rows="\n".join("<tr>" + "".join(f"<td>{cell}" for cell in row) + "</tr>" for row in rows),
        figures="\n".join(as_svg(figure) for figure in figures),
    )
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / "index.html"
    target.write_text(page, encoding="utf-8")
    print(f"{time.monotonic() - began:.0f} s; open {target}")


def measure(blueprint: fl.Blueprint, data: torch.Tensor, inits: int) -> tuple[tuple[float, float], ...]:
    """γ (ratio of averages) and the largest share, each with its standard error over initializations."""
    centres, variances, largest = [], [], []
    for seed in range(inits):
        network = blueprint.build(seed=seed)
        with torch.no_grad():
            outputs = network(data).double().numpy()  # (sample, label)
        centres.append(outputs.mean(axis=0))
        variances.append(outputs.var(axis=0).mean())
        largest.append(np.bincount(outputs.argmax(axis=1), minlength=outputs.shape[1]).max() / len(outputs))
    squares = np.mean(np.square(centres), axis=1)  # (init,)
    gamma = np.mean(squares) / np.mean(variances)
    spread = np.std(squares - gamma * np.asarray(variances)) / np.mean(variances) / np.sqrt(inits)
    return (float(gamma), float(spread)), (float(np.mean(largest)), float(np.std(largest) / np.sqrt(inits)))


def as_svg(figure: object) -> str:
    """The drawing alone, to stand inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


if __name__ == "__main__":
    main()
