"""A real ``Trainer`` of Hugging Face on a model of a few hundred weights."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from firstlight.training.integrations.transformers import GuessCallback  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # what the trainer says about its surroundings

WORDS = [
    {
        "input_ids": torch.tensor([(7 * i + j) % 30 for j in range(6)]),
        "attention_mask": torch.ones(6, dtype=torch.long),
        "labels": torch.tensor(i % 2),
    }
    for i in range(24)
]


def trained(folder, *callbacks):
    torch.manual_seed(0)
    configuration = transformers.BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    model = transformers.BertForSequenceClassification(configuration)
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=5, per_device_train_batch_size=8, gradient_accumulation_steps=2,
        report_to=[], use_cpu=True, save_strategy="no", logging_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    transformers.Trainer(model=model, args=arguments, train_dataset=WORDS, callbacks=list(callbacks)).train()
    return model


def test_the_training_is_the_same_with_and_without(tmp_path, capsys):
    logged = []
    callback = GuessCallback(
        test=[{key: torch.stack([word[key] for word in WORDS[:8]]) for key in WORDS[0]}],
        log=lambda values, step: logged.append(step),
    )
    with_it, without = trained(tmp_path, callback), trained(tmp_path)
    for name, value in with_it.state_dict().items():
        assert torch.equal(value, without.state_dict()[name]), name
    found = callback.tracker.trajectory()
    assert found.steps.tolist() == [0, 1, 2, 3, 4]
    samples = {name: found["samples"].sel(split=name).values[0].tolist() for name in found.splits}
    assert samples == {
        "train": [16, 8, 16, 8, 16],
        "test": [8] * 5,
    }  # 24 samples in two batches of 8, then one
    assert logged == [step for step in range(5) for _ in found.splits]
    assert not with_it._forward_hooks


def test_chosen_samples_and_their_number(tmp_path):
    chosen = {key: torch.stack([word[key] for word in WORDS]) for key in WORDS[0]}
    callback = GuessCallback(chosen, max_samples=10, schedule=[0, 4])
    trained(tmp_path, callback)
    found = callback.tracker.trajectory()
    assert found["samples"].values.ravel().tolist() == [10, 10]
