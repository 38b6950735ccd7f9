"""Figure G.1: SHLP on Gaussian blobs, batch and layer norm before and after the ReLU: training accuracy.

Appendix G.2: the place of the norm decides on the prejudice, hence on convergence and on the gap between classes.
"""

from __future__ import annotations

from firstlight.papers.norm.placement_dynamics import placement_figure

__all__ = ["FIGURE"]

FIGURE = placement_figure("gaussian", "train")
