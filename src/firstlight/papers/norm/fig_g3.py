"""Figure G.3: SHLP on C2-B (vehicles against animals), norms before and after the ReLU: training accuracy.

Appendix G.2: on structured data what holds on Gaussian blobs stays true in kind.
"""

from __future__ import annotations

from firstlight.papers.norm.placement_dynamics import placement_figure

__all__ = ["FIGURE"]

FIGURE = placement_figure("c2-b", "train")
