"""Whether a training that goes on from one of its trainer's checkpoints ends in the weights that it would
have had without the cut. Imports without torch."""

import json
from pathlib import Path

from envgen.files import read_model, write_json
from envgen.frozen import Frozen
from policy.grpo.batches import Batches
from policy.grpo.train_spec import TrainSpec

_FILE = "resumes.json"
"""In the work folder of a stage."""
_LOSING = {
    "use_vllm": "vLLM does not keep the state of its random numbers",
    "sync_ref_model": "the trainer does not keep its reference model",
    "save_only_model": "the trainer was told to keep no state of the optimizer",
    "ignore_data_skip": "the trainer was told not to skip the data that it has seen",
}
"""Option of the trainer -> what is lost with it."""


class Resume(Frozen):
    """A training went on from a checkpoint of the trainer."""

    step: int
    """Optimizer steps that were done before."""
    exact: bool
    """Whether the steps after it are those of an uninterrupted training on the same machine, bit for bit."""
    why: str = ""
    """What the checkpoint does not restore; empty if it is exact."""

    def __str__(self) -> str:
        return f"step {self.step}, {'exact' if self.exact else f'not exact: {self.why}'}"


def resume_of(spec: TrainSpec, checkpoint: Path, *, device: str, processes: int, instances: int) -> Resume:
    """What a training of these instances restores from a trainer checkpoint; `device` as `cpu` or `cuda`."""
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    step, batches = state["global_step"], Batches.of(spec.trl, processes)
    passes = step % batches.optimizer_steps(instances, epochs=1) * batches.accumulation
    lost = [what for option, what in _LOSING.items() if spec.trl.get(option)]
    if device != "cpu":
        lost.append("sums of a GPU differ from time to time in their last digits")
    if processes > 1 or not (checkpoint / "rng_state.pth").exists():
        lost.append("several processes add up their gradients in no fixed order")
    if passes % (batches.per_generation * batches.iterations):
        lost.append("answers that were drawn for several steps are not kept")
    if state["train_batch_size"] != batches.per_device:
        lost.append(f"per_device_train_batch_size was {state['train_batch_size']} before")
    if step >= state["max_steps"]:  # nothing is left to do
        lost = []
    return Resume(step=step, exact=not lost, why="; ".join(lost))


def keep_resume(work: Path, resume: Resume | None) -> None:
    """Keep in the work folder that a training goes on, or that it begins: before its first step."""
    earlier = [] if resume is None else [one for one in resumes(work) if one.step < resume.step]
    if resume is None:
        (work / _FILE).unlink(missing_ok=True)
    else:
        write_json(work / _FILE, (*earlier, resume))


def resumes(work: Path) -> tuple[Resume, ...]:
    """The checkpoints from which the training in a work folder went on, in order of their steps."""
    path = work / _FILE
    return read_model(path, tuple[Resume, ...], "", f"delete {work}") if path.exists() else ()


def epochs_done(checkpoint: Path) -> int:
    """Passes over the data that were complete when a trainer checkpoint was written."""
    state = json.loads((checkpoint / "trainer_state.json").read_text())
    return int(state["epoch"])
