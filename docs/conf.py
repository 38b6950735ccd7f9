"""Sphinx settings; `make docs` builds with warnings as errors."""

from __future__ import annotations

import sys
from pathlib import Path

import firstlight

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "firstlight"
author = "The firstlight developers"
copyright = f"2026, {author}"
version = release = firstlight.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "notation_page",
    "command_pages",
]
exclude_patterns = ["_build", "README.md"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"firstlight {release}"
nitpicky = False
