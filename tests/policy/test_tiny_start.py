"""A base policy that starts from another one."""

from pathlib import Path

import pytest
import torch

from envgen.errors import ModelError
from infra.config.recipe import load_recipe
from policy.tiny.new_model import new_model, take_over
from policy.tiny.tokenizer import build_tokenizer

SHAPE = {"hidden_size": 32, "layers": 1, "heads": 2}


def test_layers_and_embeddings_of_common_tokens_are_taken_over(tmp_path: Path):
    recipe = load_recipe(None, SHAPE)
    theirs, ours = (build_tokenizer([text] * 20) for text in ("one and two", "three or four"))
    first, second = new_model(recipe, theirs), new_model(recipe.model_copy(update={"seed": 1}), ours)
    first.save_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path)
    own = second.model.embed_tokens.weight[ours.vocab["threeĠorĠfour"]].clone()
    take_over(second, ours, str(tmp_path))
    for name, weight in first.model.layers.state_dict().items():
        assert torch.equal(second.model.layers.state_dict()[name], weight)
    for token in ("0.25", "41%", "<|end|>"):
        embeddings = (model.model.embed_tokens.weight for model in (first, second))
        assert torch.equal(
            *(one[vocab[token]] for one, vocab in zip(embeddings, (theirs.vocab, ours.vocab), strict=True))
        )
    left = second.model.embed_tokens.weight[ours.vocab["threeĠorĠfour"]]
    assert torch.nn.functional.cosine_similarity(own, left, dim=0) > 0.999
    assert torch.equal(second.lm_head.weight, second.model.embed_tokens.weight)
    larger = new_model(load_recipe(None, SHAPE | {"layers": 2}), ours)
    with pytest.raises(ModelError, match=r"has another shape \(1 layers, hidden_size 32\)"):
        take_over(larger, ours, str(tmp_path))
