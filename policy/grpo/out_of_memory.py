"""Training that ran out of memory: how it is recognised, and what to do about it. Imports without torch."""

from pathlib import Path
from typing import Any

from policy.grpo.launch import process_count
from policy.grpo.train_spec import TrainingSettings

OUT_OF_MEMORY = "out_of_memory"
"""Key of the progress entry in which the child says so."""
_WORDS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "no available memory for the cache blocks",
    "free memory on device",
)
"""Of PyTorch on GPU and CPU, the operating system, and vLLM."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(words in text for words in _WORDS)
    )


def memory_advice(reason: str, trl: dict[str, Any], settings: TrainingSettings, resume: Path | None) -> str:
    """What to say: the reason, three knobs with values to start from, and where training goes on."""
    batch = int(trl.get("per_device_train_batch_size", 8))
    parts = int(trl.get("gradient_accumulation_steps", 1))
    share = float(trl.get("vllm_gpu_memory_utilization", 0.3))
    knobs = []
    if batch > 1:
        smaller = max(size for size in range(1, batch) if batch % size == 0)
        passes = trl.get("steps_per_generation")
        together = f" --set trl.steps_per_generation={int(passes) * batch // smaller}" if passes else ""
        knobs.append(
            f"--set trl.per_device_train_batch_size={smaller} --set "
            f"trl.gradient_accumulation_steps={parts * batch // smaller}{together}"
        )
    if "cache blocks" in reason.lower():
        # vLLM's share holds its weights and no answer: only more of it helps, or shorter answers.
        knobs = [
            f"--set trl.vllm_gpu_memory_utilization={min(share * 1.25, 0.9):.2f}",
            "--set trl.vllm_max_model_length=N, as short as prompt and answer allow",
        ]
    elif trl.get("use_vllm"):
        sleep = "" if trl.get("vllm_enable_sleep_mode") else " --set trl.vllm_enable_sleep_mode=true"
        knobs.append(f"--set trl.vllm_gpu_memory_utilization={share * 0.75:.2f}{sleep}")
    if not trl.get("gradient_checkpointing", True):
        knobs.append("--set trl.gradient_checkpointing=true")
    anew = "; this stage's training then starts anew" if resume else ""
    knobs += [
        f"--set training.launch=fsdp2 --set training.processes=N on N GPUs (now {process_count(settings)}), "
        f"with as many answers a step{anew}",
        "--set trl.torch_empty_cache_steps=1, which frees after each step what is only reserved",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment, against gaps between what is "
        "reserved",
    ]
    where = "starts this stage's training anew, as it had not saved a checkpoint yet (trl.save_steps)"
    if resume:
        where = f"goes on from {resume.name}"
    listed = "; ".join(f"({number}) {knob}" for number, knob in enumerate(knobs[:3], start=1))
    return (
        f"training ran out of memory: {reason}. Three knobs help, and none changes what is learned: "
        f"{listed}. The same command with them {where}"
    )
