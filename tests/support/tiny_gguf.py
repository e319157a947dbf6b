"""A GGUF file made on the spot: a llama of a few thousand parameters with a byte-level tokenizer."""

from pathlib import Path
from typing import Any

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] +"
    " '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HEADS, KEY_HEADS, POSITIONS = 4, 2, 4096


def vocabulary() -> list[str]:
    """Special tokens, bytes, and one word of two bytes."""
    from tokenizers import pre_tokenizers

    return [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "11"]


def random_llama() -> Any:
    """The model whose weights the file holds."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary()),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            num_key_value_heads=KEY_HEADS,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
    )


def write_gguf(
    path: Path,
    model: Any,
    *,
    architecture: str = "llama",
    template: str | None = TEMPLATE,
    split: str = "smollm",
    end: int = 2,
    without: str = "",
) -> Path:
    """Write the model as llama.cpp's converter does; `without` leaves out the tensors of this name."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, architecture)
    config = model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(config.hidden_size // HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(vocabulary())
    writer.add_token_types([3 if token in SPECIAL else 1 for token in vocabulary()])
    writer.add_token_merges(["1 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(end)
    writer.add_unk_token_id(0)
    if template is not None:
        writer.add_chat_template(template)
    for name, weight in model.state_dict().items():
        if name != "lm_head.weight" and not (without and without in name):
            writer.add_tensor(_their_name(name), _their_order(name, weight.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_chat_model(folder: Path, template: str | None = TEMPLATE) -> Path:
    """The same model, and its tokenizer, as a Hugging Face folder."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    numbered = {token: number for number, token in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.BPE(vocab=numbered, merges=[("1", "1")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    wrapped.chat_template = template
    model = random_llama()
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = 2, 0
    model.save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return folder


_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "model.layers": "blk",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
}


def _their_name(name: str) -> str:
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return name


def _their_order(name: str, weight: Any) -> Any:
    """llama.cpp turns pairs of neighbours where transformers turns halves."""
    heads = HEADS if "q_proj" in name else KEY_HEADS if "k_proj" in name else 0
    if not heads:
        return weight
    rows = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, rows, -1).swapaxes(1, 2).reshape(weight.shape)
