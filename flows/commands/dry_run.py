"""`envwright run PRESET --dry-run`: what a curriculum would be and take, without starting or writing
anything."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from envgen.errors import ConfigError, ModelError
from envgen.yaml_files import dump_yaml
from flows.commands.terminal import print_json
from infra.config.preset import Preset, resolved_json
from infra.config.workload import Throughput, Work, Workload, workload
from policy.checkpoints import resolve_model
from policy.grpo.batches import Batches
from policy.grpo.launch import INSTALL, Sharding, missing_packages
from policy.grpo.memory import LEFT_OUT, MemoryEstimate, Moment, estimate_memory
from policy.grpo.model_size import ModelSize, model_size
from policy.grpo.train_spec import answer_tokens

_KNOBS = {
    "weights": (
        "training.lora with training.dtype bfloat16, training.launch fsdp2 on several GPUs, or engine.dtype"
        " bfloat16"
    ),
    "gradients": "training.lora",
    "optimizer state": "trl.optim adamw_8bit, or training.lora",
    "vLLM's KV cache": "trl.vllm_gpu_memory_utilization, engine.gpu_memory_utilization",
    "vLLM's weights": "trl.vllm_enable_sleep_mode, trl.vllm_mode server",
    "reference model": "trl.beta 0",
    "KV cache": "trl.use_vllm, trl.steps_per_generation, engine.batch_size, max_answer_tokens",
    "logits": "trl.steps_per_generation, engine.batch_size",
}
"""Part of the memory -> options that make it smaller."""
_NAMED = 3
"""Parts whose options are named where memory does not suffice."""
_OPEN = f"not counted: {LEFT_OUT}"


def parse_throughput(text: str) -> Throughput:
    """`GEN,TRAIN` in tokens a second; ConfigError otherwise."""
    try:
        generated, trained = (float(part) for part in text.split(","))
        return Throughput(generated=generated, trained=trained)
    except ValueError:
        raise ConfigError(
            f"--throughput {text!r}: expected GEN,TRAIN, the tokens a second that all GPUs generate and train"
            " on, for example 4000,9000"
        ) from None


def show_dry_run(
    preset: Preset,
    console: Console,
    gpu_memory: float | None,
    throughput: str | None,
    answer_length: int | None,
    json_: bool = False,
) -> None:
    """Print config, memory, tokens and hours of a preset, or all but the hours as JSON; ConfigError or
    ModelError if it cannot be run at all."""
    rate = parse_throughput(throughput) if throughput else None
    work, asked = workload(preset, answer_length), preset.prompt_tokens()
    longest = max(preset.max_answer_tokens, preset.effective_engineer().max_tokens)
    resolve_model(
        preset.model
    )  # a checkpoint that is not there is an error; a model that cannot be counted is not
    try:
        size = model_size(preset.model, preset.training.lora)
        estimate = estimate_memory(
            size, preset.training, preset.trl, preset.engine, asked, longest, gpu_memory
        )
        lines = [_weights(size), *_sizes(preset, asked), *_held(estimate), *_verdict(estimate, gpu_memory)]
    except ModelError as error:
        estimate, lines = None, [*_sizes(preset, asked), str(error)]
    shown = preset.model_copy(update={"engineer": preset.effective_engineer()})
    if json_:
        return print_json({"preset": shown, "memory": estimate, "workload": work})
    console.print(dump_yaml(resolved_json(shown)), markup=False, highlight=False, soft_wrap=True)
    if estimate is not None:
        console.print(memory_table(estimate))
    absent = missing_packages(preset.trl, preset.training)
    missing = [
        f"not installed here, and needed for {setting}: {INSTALL[package]}"
        for package, setting in absent.items()
    ]
    for line in [*lines, *missing]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(tokens_table(work, rate))
    for line in _assumptions(work, answer_length, rate):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def memory_table(estimate: MemoryEstimate) -> Table:
    """GiB of each part at each moment, and their sums."""
    table = Table(
        title="Memory of one GPU in GiB, at least", box=SIMPLE_HEAD, pad_edge=False, title_justify="left"
    )
    table.add_column("part")
    for moment in estimate.moments:
        table.add_column(moment.name, justify="right", max_width=18)
    for part in dict.fromkeys(part for moment in estimate.moments for part in moment.parts):
        table.add_row(
            part,
            *(f"{moment.parts[part]:.2f}" if part in moment.parts else "" for moment in estimate.moments),
        )
    table.add_section()
    table.add_row("sum", *(f"{moment.total:.2f}" for moment in estimate.moments))
    return table


def tokens_table(work: Workload, rate: Throughput | None) -> Table:
    """Answers, tokens and, at a stated rate, hours of a curriculum's parts."""
    table = Table(title="Tokens, estimated", box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for name in ("part", "answers", "prompt", "generated", "trained on", *(["hours"] if rate else [])):
        table.add_column(name, justify="left" if name == "part" else "right")
    rows = {
        "training, a stage": work.training,
        "evaluation, a policy": work.evaluation,
        "engineer, a stage": work.engineer,
        "a stage": work.stage,
        f"the curriculum, {work.stages} stages": work.total,
    }
    for name, part in rows.items():
        table.add_row(name, *_row(part, rate))
    return table


def _row(work: Work, rate: Throughput | None) -> list[str]:
    counts = [
        f"{work.answers:,}",
        *(f"{count / 1e6:,.1f} M" for count in (work.prompt_tokens, work.generated, work.trained)),
    ]
    return counts + ([f"{rate.hours(work):,.1f}"] if rate else [])


def _weights(size: ModelSize) -> str:
    adapters = size.adapters
    trained = "all of them" if adapters is None else f"{adapters:,} more of adapters, which alone are"
    return f"{size.parameters:,} weights, {trained} trained"


def _held(estimate: MemoryEstimate) -> list[str]:
    held = [(one.name, one.sequences) for one in estimate.moments if one.sequences is not None]
    return [
        f"while {name}, vLLM's cache holds at most {count} answers of full length at a time"
        for name, count in held
    ]


def _sizes(preset: Preset, asked: int) -> list[str]:
    batches = Batches.of(preset.trl, Sharding.of(preset.training).processes)
    return [
        f"the longest prompt has about {asked} tokens, with its answer {asked + answer_tokens(preset.trl)}",
        (
            f"processes that train (one a GPU): {batches.processes}, each with {batches.per_device} answers"
            f" a pass and {batches.generated} generated together"
        ),
        f"{batches.answers} answers to {batches.prompts} prompts at a time",
    ]


def _verdict(estimate: MemoryEstimate, gpu_memory: float | None) -> list[str]:
    peak = estimate.peak
    most = f"at least {peak.total:.1f} GiB are needed, while {peak.name}"
    if gpu_memory is None:
        shared = [
            "vLLM's cache is as large as all its answers need; --gpu-memory 80 counts what it takes of a card"
            " of 80 GiB"
        ]
        return [
            most,
            _OPEN,
            *(shared if any("vLLM's KV cache" in moment.parts for moment in estimate.moments) else []),
        ]
    if any(moment.sequences == 0 for moment in estimate.moments):
        more = "raise trl.vllm_gpu_memory_utilization or engine.gpu_memory_utilization"
        return [f"does not fit: vLLM's share of {gpu_memory:g} GiB holds no answer of full length; {more}"]
    if peak.total <= gpu_memory:
        return [
            (
                f"{most}, of {gpu_memory:g} GiB: {gpu_memory - peak.total:.1f} GiB are left for what is not"
                " counted"
            ),
            _OPEN,
        ]
    return [
        f"does not fit: {most}, of {gpu_memory:g} GiB; what helps:",
        *(f"  {line}" for line in _helps(peak)),
    ]


def _helps(moment: Moment) -> list[str]:
    largest = sorted((part for part in moment.parts if part in _KNOBS), key=lambda part: -moment.parts[part])[
        :_NAMED
    ]
    return [f"{part}, {moment.parts[part]:.1f} GiB: {_KNOBS[part]}" for part in largest]


def _assumptions(work: Workload, answer_length: int | None, rate: Throughput | None) -> list[str]:
    how = (
        "as given"
        if answer_length
        else "half of trl.max_completion_length: an assumption, --answer-length changes it"
    )
    hours = (
        "hours are at the rates given"
        if rate
        else (
            "no hours without --throughput GEN,TRAIN, the tokens a second that your machine generates and"
            " trains on"
        )
    )
    return [
        (
            f"{work.optimizer_steps} optimizer steps a stage; answers in training have {work.answer_length}"
            f" tokens on average ({how})"
        ),
        hours,
    ]
