"""A Hugging Face configuration by its path or its class, as a factory of untrained models; nothing is downloaded.

Enters: a folder with ``config.json``, a JSON file, a name that Hugging Face's cache holds, or the name of a
configuration class (``ResNetConfig``). Leaves: a factory. The head is that for image classification where the
architecture has one, else that of a language model.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstlight.errors import CouldNotError, ModelError, UsageError

__all__ = ["factory_of_config"]

_HEADS = ("AutoModelForImageClassification", "AutoModelForMaskedLM", "AutoModelForCausalLM")


def factory_of_config(place: str) -> Callable[[], Any]:
    """A function that builds the model of this configuration with fresh weights."""
    if not place:
        raise UsageError("model 'hf:': expected hf:DIR, hf:config.json or hf:ResNetConfig, got no path")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise CouldNotError(
            f"model 'hf:{place}': needs transformers, which is not installed; type pip install transformers"
        ) from error
    config = _config(transformers, place)
    builder = _builder(transformers, config, place)

    def build() -> Any:
        return builder.from_config(config)

    build.__qualname__ = build.__name__ = f"hf:{place}"
    return build


def _config(transformers: Any, place: str) -> Any:
    if Path(place).exists() or "/" in place:
        return _read(transformers, place)
    found = getattr(transformers, place, None)
    base = transformers.PretrainedConfig
    if isinstance(found, type) and issubclass(found, base) and found is not base:
        return _built(found, place)
    near = difflib.get_close_matches(place, [name for name in dir(transformers) if name.endswith("Config")])
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(
        f"model 'hf:{place}': expected a folder with config.json, a JSON file or a configuration class of "
        f"transformers such as hf:ResNetConfig, got {place!r}{hint}"
    )


def _built(found: Any, place: str) -> Any:
    try:
        return found()
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"model 'hf:{place}': the class cannot be built without arguments ({error}); "
            "save a configuration and type hf:DIR"
        ) from error


def _read(transformers: Any, place: str) -> Any:
    path = Path(place)
    if path.is_dir() and not (path / "config.json").is_file():
        raise UsageError(f"model 'hf:{place}': the folder has no config.json")
    try:
        return transformers.AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    except OSError as error:
        if path.exists():
            raise ModelError(
                f"model 'hf:{place}': the configuration cannot be read: {_first(error)}"
            ) from error
        raise UsageError(
            f"model 'hf:{place}': there is no such file or folder, nor is it in Hugging Face's cache, and nothing is "
            "downloaded; fetch its config.json and type hf:DIR, or name a class such as hf:ResNetConfig"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"model 'hf:{place}': the configuration cannot be read: {_first(error)}") from error


def _builder(transformers: Any, config: Any, place: str) -> Any:
    for name in _HEADS:
        builder = getattr(transformers, name)
        if type(config) in builder._model_mapping:
            return builder
    raise ModelError(
        f"model 'hf:{place}': {type(config).__name__} has a head neither for image classification nor for language; "
        "write a factory that builds the model and type path/to/file.py:factory"
    )


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
