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
HOURS = "takes an hour or more"
LEFT_OUT = {
    "make demo": INSTALLS,
    "make test": "runs this test",
    "make vllm": INSTALLS,
    ". .venv/bin/activate": "the test has envwright on its path",
    "python3.12 -m venv": INSTALLS,
    "pip install": INSTALLS,
    "envwright benchmark http://localhost:8000": "needs an endpoint",
    "envwright benchmark Qwen/Qwen3-4B": NETWORK,
    "envwright compare guards.yaml --jobs": HOURS,
    "envwright run qwen3-4b": GPU,
    "envwright run puzzles": GPU,
    "envwright run ./riddle_rows.yaml": "verifiers is installed apart",
    "envwright profile ./reversed.yaml": "verifiers is installed apart",
    "envwright compare ./reversed.yaml": "verifiers is installed apart",
    "envwright engineers bench --engineer bench/": "asks a file of the checkout",
    "envwright engineers bench --engineer openai": "needs an endpoint",
    "envwright run micro --engineer openai": "needs an endpoint",
    "CUDA_VISIBLE_DEVICES=": GPU,
    "hf download": NETWORK,
    "git clone": NETWORK,
    ".venv-verifiers/bin/pip install": INSTALLS,
    "envwright warmstart -o warm": NETWORK,
    "envwright warmstart -o smollm2-warm": HOURS,
    "envwright run smollm2-135m": HOURS,
    "VLLM_CPU_KVCACHE_SPACE=1 .venv-vllm/bin/python": "serves until it is ended, weights that take hours",
    "vf-validate": "verifiers is installed apart; tests/infra/test_stage_export.py calls it",
    "vf-eval": "the same, with an endpoint",
    "export PREFECT_SERVER_API_AUTH_STRING": CLUSTER,
    "export PREFECT_API_URL": CLUSTER,
    "mlflow server": CLUSTER,
    "cd infra/deploy": CLUSTER,
    "prefect work-pool create": CLUSTER,
    "sbatch": CLUSTER,
    "prefect deployment run curriculum/qwen3": CLUSTER,
}
"""What begins a command that no test runs -> why."""
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
    reasons = (why for begin, why in LEFT_OUT.items() if line.startswith(begin))
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
