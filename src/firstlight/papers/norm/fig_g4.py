"""Figure G.4: SHLP on C2-B (vehicles against animals), norms before and after the ReLU: test accuracy.

Appendix G.2: on structured data what holds on Gaussian blobs stays true in kind.
The same runs as in figure G.3.
"""

from __future__ import annotations

from firstlight.papers.norm.placement_dynamics import placement_figure

__all__ = ["FIGURE"]

FIGURE = placement_figure("c2-b", "test")
