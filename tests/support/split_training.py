"""Training under FSDP2 on the cores of a CPU, which accelerate would do on GPUs only: a module to launch
instead of `policy.grpo.training`."""

import os
import sys
from pathlib import Path

os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"

import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType

PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_GPU)

from envgen.processes import end_with_parent
from policy.grpo.train_spec import TrainSpec
from policy.grpo.training import main

if __name__ == "__main__":
    end_with_parent()
    torch.distributed.init_process_group("gloo")
    main(TrainSpec.model_validate_json(Path(sys.argv[1]).read_text()))
