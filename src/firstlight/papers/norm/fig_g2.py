"""Figure G.2: SHLP on Gaussian blobs, batch and layer norm before and after the ReLU: test accuracy.

Appendix G.2: the place of the norm decides on the prejudice, hence on convergence and on the gap between classes.
The same runs as in figure G.1.
"""

from __future__ import annotations

from firstlight.papers.norm.placement_dynamics import placement_figure

__all__ = ["FIGURE"]

FIGURE = placement_figure("gaussian", "test")
