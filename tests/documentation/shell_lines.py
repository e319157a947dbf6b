"""The shell commands of README.md and the docs, and what is left out or appended where a test runs them."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FEW = "--set instances=16 --set epochs=1 --set validation.instances=1"
"""What makes a run of the tiny preset one of seconds."""
_OPTIONS = '{"stages": 1, "settings": {"instances": 16, "epochs": 1, "validation.instances": 1}}'
SMALLER = {
    "envwright run tiny-puzzles": f"{FEW} --stages 1",
    "envwright run tiny --name": f"{FEW} --stages 2",
    "envwright run tiny --engineer": f"{FEW} --stages 2",
    "envwright run ./riddles.yaml": "--stages 1",
    "envwright run ./tasks1.yaml": "--stages 1",
    "envwright compare tiny --engineers fixed": f"{FEW} --stages 2 --seeds 0",
    "envwright benchmark tiny": "--limit 1",
    "envwright engineers bench --engineer checkpoint": "--draws 2",
    "envwright approve decided": "--yes",
    "prefect deployment run curriculum/tiny -p name=served": f"-p options='{_OPTIONS}'",
}
"""What begins a command -> what is appended, so that it takes seconds, or needs nobody to answer."""

CLUSTER = "needs a cluster, containers, a database or a bucket of one's own"
GPU = "needs a GPU, or what only a GPU needs"
NETWORK = "asks the network"
INSTALLS = "installs packages, for minutes"
APART = "verifiers is installed apart; tests/infra/test_stage_export.py calls vf-validate"
HOURS = "takes an hour or more"
ENDPOINT = "needs an endpoint"
LEFT_OUT = [
    (CLUSTER, "export PREFECT_SERVER_API_AUTH_STRING", "export PREFECT_API_URL", "mlflow server", "sbatch"),
    (CLUSTER, "cd infra/deploy", "prefect work-pool create", "prefect deployment run curriculum/qwen3"),
    (GPU, "envwright run qwen3-4b", "envwright run puzzles", "CUDA_VISIBLE_DEVICES="),
    (NETWORK, "hf download", "envwright benchmark Qwen/Qwen3-4B", "envwright warmstart -o warm"),
    (INSTALLS, "make demo", "make vllm", "python3.12 -m venv", "pip install"),
    (APART, "envwright run ./riddle_rows.yaml", "vf-validate", "vf-eval"),
    (HOURS, "envwright warmstart -o smollm2-warm", "envwright run smollm2-135m"),
    (HOURS, "envwright compare guards.yaml --jobs"),
    (ENDPOINT, "envwright engineers bench --engineer openai", "envwright run micro --engineer openai"),
    (ENDPOINT, "envwright benchmark http://localhost:8000"),
    ("asks a file of the checkout", "envwright engineers bench --engineer bench/"),
    ("serves until it is ended", "VLLM_CPU_KVCACHE_SPACE=1 .venv-vllm/bin/python"),
    ("calls this test, or is done for it", "make test", ". .venv/bin/activate"),
]
"""Why no test runs a command, and what such commands begin with."""
ELSEWHERE = {"deploy.md": CLUSTER}
"""Pages on which nothing can be run."""
RUN_ALL_THE_SAME = ("envwright run qwen3-4b --dry-run",)
"""Commands that begin like one that is left out."""


def shell_lines(page: Path) -> list[str]:
    """The lines of the shell blocks of a page, continued lines joined."""
    text = "\n".join(re.findall(r"```bash\n(.*?)```", page.read_text(), flags=re.DOTALL))
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def left_out(page: Path, line: str) -> str:
    """Why a command is not run; empty if it is."""
    if line.startswith(RUN_ALL_THE_SAME):
        return ""
    reasons = (why for why, *begins in LEFT_OUT if line.startswith(tuple(begins)))
    return ELSEWHERE.get(page.name, "") or next(reasons, "")


def calls(line: str, program: str) -> list[list[str]]:
    """The arguments of every call of a program in a line."""
    command = re.split(r"\s#\s", line)[0]
    parts = [shlex.split(part) for part in re.split(r"&&|\|\||;|&", command)]
    bare = [[word for word in part if not re.match(r"[A-Z_]+=", word)] for part in parts]
    return [part[1:] for part in bare if part[:1] == [program]]


def smaller(line: str) -> tuple[str, int]:
    """A command as it is run, and the exit code that its comment promises, 0 if it promises none."""
    command, _, comment = re.split(r"(\s#\s|$)", line, maxsplit=1)
    more = next((more for begin, more in SMALLER.items() if line.startswith(begin)), "")
    promised = re.search(r"exit code (\d)", comment)
    return f"{command.strip()} {more}".strip(), int(promised[1]) if promised else 0


def named_files(page: Path) -> dict[str, str]:
    """The files that a page shows, whose first line is a comment with their name."""
    block = r"```(?:yaml|python)\n# (\S+\.(?:yaml|py))\n(.*?)```"
    return dict(re.findall(block, page.read_text(), flags=re.DOTALL))
