"""Audit one network with its norm before the activation, and again with the norm after it; write one page.

    python examples/demo.py --out demo

The two differ in nothing but the place of the norm. Each is drawn many times, shown data without training, predicted by
theory, and judged; both stand side by side in the terminal and in ``demo/index.html``. The same at the command line:

    firstlight audit mlp:depth=12,norm=layer,placement=before --compare mlp:depth=12,norm=layer,placement=after \
        --out demo/index.html
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch

import firstlight as fl


def main() -> None:
    """Audit both, print the contrast, write the page."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=Path, default=Path("demo"))
    arguments.add_argument("--inits", type=int, default=100)
    arguments.add_argument("--samples", type=int, default=500)
    arguments.add_argument("--depth", type=int, default=12)
    arguments.add_argument("--width", type=int, default=128)
    options = arguments.parse_args()
    began = time.monotonic()
    torch.set_num_threads(1)  # the networks are small: more threads would wait for each other

    data = f"gaussian:samples={options.samples},dimensions=100"
    audits = []
    for placement in ("before", "after"):
        line = f"mlp:inputs=100,depth={options.depth},width={options.width},norm=layer,placement={placement}"
        diagnosis = fl.audit(fl.Blueprint.parse(line), data, inits=options.inits, progress=False)
        typed = {"name": f"norm {placement}", "model": line, "data": data}
        audits.append(replace(diagnosis, extra={**diagnosis.extra, "typed": typed}))

    options.out.mkdir(parents=True, exist_ok=True)
    target = fl.report(audits, options.out / "index.html")
    print(fl.report(audits))
    print(f"{time.monotonic() - began:.0f} s; open {target}")


if __name__ == "__main__":
    main()
