"""Decode picture files.

Enters: a path. Leaves: ``uint8`` values, (row, column) for mode ``"L"`` and (row, column, channel) for ``"RGB"``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from firstlight.errors import DataError

__all__ = ["decoded"]


def decoded(path: Path, *, mode: Literal["L", "RGB"]) -> np.ndarray[Any, Any]:
    """Decode one file into grey or colour; grey files become colour by repeating the channel."""
    try:
        with Image.open(path) as picture:
            return np.array(picture if picture.mode == mode else picture.convert(mode))
    except FileNotFoundError:
        raise DataError(f"{path}: file not found; get the data set anew") from None
    except (OSError, SyntaxError) as error:  # pillow raises SyntaxError on broken PNG chunks
        raise DataError(
            f"{path}: expected a picture, got {path.stat().st_size} bytes that do not decode ({error}); "
            "the file is truncated or damaged; get it anew"
        ) from error
