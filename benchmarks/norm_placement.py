"""Norm before or after the activation: γ measured before and after moving it, theory beside it, and what it costs.

    FIRSTLIGHT_DATA=… python benchmarks/norm_placement.py            # all tables: an hour on one busy core
    python benchmarks/norm_placement.py --only perceptrons gradients

Writes ``results/norm_placement.json`` as each part ends, and prints Markdown tables; ``docs/repairing.md`` quotes them.

perceptrons   one and twenty hidden layers of 100, ReLU, 1,000 gaussian points of 1,000 coordinates, 200 draws;
              beside them the prediction for the rewritten module
pictures      ResNet-9 (width 32), MLP-Mixer as in the paper, and Hugging Face's ViT and Swin, untrained, small, on 128
              CIFAR-10 pictures, 48 initializations
gradients     slope of log gradient scale against depth, 20 hidden layers of 300
training      20 hidden layers of 100 on two classes of CIFAR-10 (4,000 pictures), Adam, best of three rates after 300
              steps of 256, 3 runs; and how uneven the guesses are on the way
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import firstlight as fl
from firstlight import data, models
from firstlight.remedies.norm_placement import norm_after_activation
from firstlight.remedies.norm_types import convert_norm

OUT = Path(__file__).parent / "results" / "norm_placement.json"
RATES = (1e-4, 1e-3, 1e-2)
STEPS, BATCH, RUNS = 300, 256, 3


def perceptrons() -> list[dict[str, Any]]:
    inputs = torch.randn(1000, 1000, generator=torch.Generator().manual_seed(0))
    rows = []
    for norm in ("batch", "layer", "rms"):
        for depth in (1, 20):
            before = fl.Blueprint.mlp(
                inputs=1000, depth=depth, width=100, classes=2, norm=norm, placement="before"
            )
            # the blueprint itself, so that weights are drawn by its law; a module of plain layers has torch's own
            moved, change = fl.repair(before, inputs, ["norm_after_activation"], inits=200, progress=False)
            read = fl.Blueprint.read(moved(seed=0), weight_variance=2.0, bias_variance=0.0)
            predicted = [float(fl.predict(item).gamma[-1]) for item in (before, read)]
            on_data = float(fl.predict(read, data=inputs[:512].numpy()).gamma[-1])
            rows.append(
                {"norm": norm, "depth": depth, "theory": predicted, "theory on data": on_data, **row(change)}
            )
            print(rows[-1], flush=True)
    return rows


def row(change: fl.Change) -> dict[str, Any]:
    gamma, greatest = change.difference(), change.difference("greatest fraction")
    return {
        "edits": len(change.edits),
        "left": len(change.left),
        "gamma": [gamma.before, gamma.before_stderr, gamma.after, gamma.after_stderr],
        "greatest": [greatest.before, greatest.before_stderr, greatest.after, greatest.after_stderr],
        "verdict": change.verdict,
    }


def resnet9() -> nn.Module:
    return models.resnet9(width=32)


def mixer() -> nn.Module:
    return models.mlp_mixer()


def vit() -> nn.Module:
    import transformers

    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=8,
        num_attention_heads=4,
        intermediate_size=256,
        image_size=32,
        num_labels=10,
    )
    config.patch_size = 4
    return transformers.ViTForImageClassification(config)


def swin() -> nn.Module:
    import transformers

    config = transformers.SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=32,
        depths=[2, 2, 2],
        num_heads=[2, 4, 8],
        window_size=4,
        num_labels=10,
    )
    return transformers.SwinForImageClassification(config)


def pictures() -> list[dict[str, Any]]:
    samples = data.load("cifar10", samples=128)
    cases: list[tuple[str, Callable[[], nn.Module], str]] = [
        ("ResNet-9, batch norm", resnet9, "after-activation"),
        ("MLP-Mixer", mixer, "after-activation"),
        ("MLP-Mixer", mixer, "after-branch"),
        ("ViT", vit, "after-activation"),
        ("ViT", vit, "after-branch"),
        ("Swin", swin, "after-activation"),
        ("Swin", swin, "after-branch"),
    ]
    rows = []
    for name, make, variant in cases:
        _, change = fl.repair(
            make,
            samples,
            ["norm_after_activation"],
            variant=variant,
            inits=48,
            batch_size=128,
            progress=False,
        )
        rows.append({"model": name, "variant": variant, **row(change)})
        print(rows[-1], flush=True)
    return rows


def perceptron(norm: str | None, placement: str, width: int, inputs: int) -> Callable[[], nn.Module]:
    """Twenty layers; ``after`` is the rewritten ``before``."""

    def make() -> nn.Module:
        net = models.mlp(inputs, depth=20, width=width, classes=2, norm=None if norm is None else "batch")
        if norm is not None:
            net = convert_norm(net, to=norm)[0]
        return norm_after_activation(net)[0] if placement == "after" else net

    return make


CASES = [
    (None, "before"),
    *((norm, place) for norm in ("batch", "layer", "rms") for place in ("before", "after")),
]


def gradients() -> list[dict[str, Any]]:
    inputs = torch.randn(256, 300, generator=torch.Generator().manual_seed(0))
    rows = []
    for norm, placement in CASES:
        profile = fl.measure(
            perceptron(norm, placement, 300, 300),
            inputs,
            inits=24,
            progress=False,
            quantities=["gradient_scale", "gamma"],
        )
        names = [name for name in profile.layers if name.startswith("linear")]
        logs = np.log(profile.gradient_scale.sel(layer=names).values)
        slope = float(np.polyfit(np.arange(len(names)), logs, 1)[0])
        rows.append({"norm": norm, "placement": placement, "slope per layer towards the output": slope})
        print(rows[-1], flush=True)
    return rows


def training() -> list[dict[str, Any]]:
    samples = data.load("cifar10:c2-b", samples=4000, flatten=True)
    x, y = samples.inputs.flatten(1), samples.labels.long()
    rows = []
    for norm, placement in CASES:
        by_rate = {}
        for rate in RATES:
            runs = [
                run(perceptron(norm, placement, 100, x.shape[1]), x, y, rate, seed) for seed in range(RUNS)
            ]
            by_rate[rate] = np.array(runs)  # (run, what)
        best = min(by_rate, key=lambda rate: float(np.nan_to_num(by_rate[rate][:, 0], nan=math.inf).mean()))
        loss, uneven, late = by_rate[best].mean(0)
        rows.append(
            {"norm": norm, "placement": placement, "rate": best, "loss": loss, "uneven at birth": uneven,
             "uneven after 30 steps": late, "loss of each run": by_rate[best][:, 0].tolist()}
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def run(
    make: Callable[[], nn.Module], x: torch.Tensor, y: torch.Tensor, rate: float, seed: int
) -> tuple[float, float, float]:
    """Mean loss of the last 30 steps, and |f₀ − f₁| of all points at birth and after 30 steps."""
    torch.manual_seed(seed)
    model = make().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses, uneven = [], []
    for step in range(STEPS):
        if step in (0, 30):
            with torch.no_grad():
                shares = model(x).argmax(1).float().mean().item()
            uneven.append(abs(2 * shares - 1))
        chosen = torch.randint(len(x), (BATCH,))
        loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return float(np.mean(losses[-30:])), uneven[0], uneven[1]


PARTS = {"perceptrons": perceptrons, "gradients": gradients, "pictures": pictures, "training": training}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    found = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in parser.parse_args().only:
        found[name] = PARTS[name]()
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(json.dumps(found, indent=1) + "\n")
        print(table(found[name]), flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    heads = list(rows[0])
    lines = [heads, ["---"] * len(heads), *([told(item[head]) for head in heads] for item in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(told(item) for item in value)
    return str(value)


if __name__ == "__main__":
    main()
