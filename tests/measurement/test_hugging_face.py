"""Hugging Face models, tiny and from their configurations: every layer, every quantity, drawn by their own law."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import firstlight as fl

transformers = pytest.importorskip("transformers")

IMAGES = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 3, 32, 32))).float()
TOKENS = torch.from_numpy(np.random.default_rng(0).integers(0, 60, (6, 12)))


def resnet():
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", num_labels=5
    )
    return transformers.ResNetForImageClassification(config)


def vit():
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            image_size=32, patch_size=8, num_labels=4,
        )
    )  # fmt: skip


def swin():
    return transformers.SwinForImageClassification(
        transformers.SwinConfig(
            image_size=32,
            patch_size=2,
            embed_dim=8,
            depths=[1, 2],
            num_heads=[1, 2],
            window_size=4,
            num_labels=3,
        )
    )


def bert():
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            num_labels=3,
        )
    )  # fmt: skip


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
        )
    )


def llama():
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            num_key_value_heads=1,
        )
    )  # fmt: skip


CASES = {
    "resnet": (resnet, IMAGES, 6, 24),
    "vit": (vit, {"pixel_values": IMAGES}, 6, 21),
    "swin": (swin, IMAGES, 6, 33),
    "bert": (
        bert,
        {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS), "labels": TOKENS[:, 0]},
        6,
        22,
    ),
    "gpt2": (gpt2, TOKENS, 72, 16),
    "llama": (llama, {"input_ids": TOKENS}, 72, 22),
}


@pytest.mark.parametrize("name", CASES)
def test_every_quantity_of_every_layer(name):
    build, data, guesses, layers = CASES[name]
    model = build()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    profile = fl.measure(model, data, inits=2, quantities="all")
    assert profile.guesses.counts.sum(1).tolist() == [guesses] * 2
    assert profile.coverage.complete
    assert len(profile.layers) == layers
    assert set(profile.layers) <= dict(model.named_modules()).keys()
    assert profile.layers[-1] in ("classifier.1", "classifier", "lm_head")
    for quantity in (
        "gamma",
        "data_variance",
        "effective_rank",
        "sensitivity",
        "noise_effective_rank",
        "gradient_scale",
    ):
        assert np.isfinite(profile[quantity]).all(), quantity
    assert (profile["gamma_init"].values[0] != profile["gamma_init"].values[1])[-1]
    assert profile.provenance.settings["redraw"] == "Hugging Face initializer"
    after = model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("name", ["vit", "gpt2"])
def test_their_own_law(name):
    """Re-drawn weights have the standard deviation of the configuration, and are not those the model came with."""
    from firstlight.measurement.initialization import drawing

    model = CASES[name][0]()
    draw = drawing(model, seed=0)
    drawn = dict(draw.module_of(0).named_parameters())
    first = {key: value.clone() for key, value in drawn.items()}
    draw.module_of(1)
    for key, value in model.named_parameters():
        if value.ndim == 2 and value.numel() >= 256 and "c_proj" not in key:
            assert first[key].std().item() == pytest.approx(0.02, rel=5 / np.sqrt(2 * value.numel())), key
            assert not torch.equal(first[key], value)
            assert not torch.equal(first[key], drawn[key])


def test_hidden_states_are_no_logits():
    config = transformers.BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    profile = fl.measure(transformers.BertModel(config), {"input_ids": TOKENS}, inits=1)
    assert profile.guesses is None
    assert any("no logits" in note for note in profile.provenance.notes)
