"""Training on several machines: two network namespaces of this one, each with an address of its own, and a
stand-in for Slurm's `srun`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from boards import train_spec
from support.boards import boards_config, sample_boards
from test_launch import OPTIONS, check_of, train

from envgen.errors import ChildError, ConfigError
from policy.grpo.launch import launch_config, launcher
from policy.grpo.nodes import command_everywhere, command_here
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import TrainingSettings, last_checkpoint

TEMPLATE = Path(__file__).parents[2] / "infra" / "deploy" / "slurm" / "worker.sbatch"
SRUN = f"""#!{sys.executable}
import os, subprocess, sys
from envgen.processes import die_with_parent
command = sys.argv[1:]
while command[0].startswith("--"):
    command.pop(0)
nodes = []
for number, network in enumerate(os.environ["NETWORKS"].split()):
    place = {{"SLURM_NODEID": str(number), "GLOO_SOCKET_IFNAME": network}}
    print("node", number, "is", network, flush=True)
    inside = ["ip", "netns", "exec", network, *command]
    bound = lambda: die_with_parent(os.getppid())
    nodes.append(subprocess.Popen(inside, env={{**os.environ, **place}}, preexec_fn=bound))
codes = [node.wait() for node in nodes]
sys.exit(max(map(abs, codes)))
"""


def template_command() -> str:
    """What the batch script starts on every node, for nodes of one core."""
    [line] = re.findall(r'ENVWRIGHT_NODES="(.*)"', TEMPLATE.read_text())
    return line.replace("${SLURM_CPUS_PER_TASK:-1}", "1")


def test_each_machine_starts_accelerate_with_its_place(monkeypatch: pytest.MonkeyPatch):
    for name, value in {"ENVWRIGHT_NODES": template_command(), "SLURM_NNODES": "2"}.items():
        monkeypatch.setenv(name, value)
    first, *options = launcher(TrainingSettings(launch="ddp", processes=16), {})
    assert (first, options[0]) == ("policy.grpo.nodes", "everywhere")
    started = command_everywhere(options[1:])
    assert started[:2] == ["srun", "--ntasks-per-node=1"]
    with pytest.raises(ConfigError, match="SLURM_NODEID, MASTER_ADDR, MASTER_PORT: not set"):
        command_here(options[1:])
    place = {"SLURM_NODEID": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    shown = " ".join(command_here(started[started.index("here") + 1 :]))
    assert "accelerate.commands.launch --num_machines 2 --machine_rank 1 --main_process_ip 10.0.0.1" in shown
    assert "--num_processes 16" in shown
    with pytest.raises(ConfigError, match="3 cannot be shared out evenly over 2 machines"):
        launcher(TrainingSettings(launch="ddp", processes=3), {})
    monkeypatch.setenv("SLURM_NNODES", "two")
    with pytest.raises(ConfigError, match="'two' is no number of machines"):
        launcher(TrainingSettings(launch="ddp"), {})


@pytest.fixture
def networks() -> Iterator[list[str]]:
    """Two network namespaces with a cable between them, each named as the interface in it."""
    names = [f"ew{os.getpid() % 10000}{end}" for end in "ab"]
    made = [["netns", "add", name] for name in names]
    made.append(["link", "add", names[0], "type", "veth", "peer", "name", names[1]])
    for number, name in enumerate(names, 1):
        inside = ["-n", name]
        made.append(["link", "set", name, "netns", name])
        made.append([*inside, "addr", "add", f"10.213.7.{number}/24", "dev", name])
        made += [[*inside, "link", "set", one, "up"] for one in ("lo", name)]
    try:
        for command in made:
            done = subprocess.run(["ip", *command], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no network namespaces here: ip {' '.join(command)}: {done.stderr}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces")
@pytest.mark.parametrize("launch", ["cpu", "fsdp2"])
def test_two_machines_train_one_policy_and_go_on_after_a_kill(
    launch: str, networks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(SRUN)
    srun.chmod(0o755)
    told = {"ENVWRIGHT_NODES": template_command(), "SLURM_NNODES": "2", "NETWORKS": " ".join(networks)}
    told |= {
        "MASTER_ADDR": "10.213.7.1",
        "MASTER_PORT": "29500",
        "PATH": f"{srun.parent}:{os.environ['PATH']}",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / f"{launch}.yaml"
    config.write_text(launch_config(launch).read_text().replace("use_cpu: false", "use_cpu: true"))
    boards = boards_config({3: (1, 0.2, 0.25)})
    training = TrainingSettings(launch=str(config), processes=2)
    instances = sample_boards(boards, 16, seed=5)
    spec = train_spec(tmp_path, instances, training, save_steps=1, **OPTIONS)
    child: list[subprocess.Popen] = []

    def kill_after_two_steps(entry: dict) -> None:
        if entry["step"] == 2:
            os.kill(child[0].pid, signal.SIGKILL)

    with pytest.raises(ChildError, match="killed by SIGKILL"):
        train(spec, kill_after_two_steps, child.append)
    saved = last_checkpoint(spec.work)
    assert saved is not None
    train(spec)
    said = (tmp_path / "training.log").read_text()
    assert f"node 1 is {networks[1]}" in said
    assert f"resuming from {saved.name}" in said
    assert read_train_log(tmp_path / "train_log.parquet")["step"] == [1, 2, 3, 4]
    assert check_of(tmp_path, str(tmp_path / "checkpoint")).verdict == "same"
