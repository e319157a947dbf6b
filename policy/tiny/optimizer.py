"""Muon for weight matrices and AdamW for all else, as one optimizer with one schedule."""

from typing import Any

import torch
from torch.optim import AdamW, Muon, Optimizer


class MuonAdamW(Optimizer):
    """Steps two optimizers; their parameter groups are its own, so a learning rate set here holds there."""

    def __init__(
        self,
        params: list[torch.nn.Parameter],
        rest: list[torch.nn.Parameter],
        muon_lr: float,
        adamw_lr: float,
    ) -> None:
        muon = Muon(params, lr=muon_lr, momentum=0.95, weight_decay=0.01)
        adamw = AdamW(rest, lr=adamw_lr, betas=(0.9, 0.98), weight_decay=0.01)
        self._parts = (muon, adamw)
        super().__init__([{"params": params, "lr": muon_lr}, {"params": rest, "lr": adamw_lr}], {})
        self._share_groups()

    def step(self, closure: Any = None) -> None:
        """One step of both; a closure is not supported."""
        assert closure is None
        for part in self._parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        """Those of both, in order."""
        return {"parts": [part.state_dict() for part in self._parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What `state_dict` gave."""
        for part, state in zip(self._parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self._share_groups()

    def _share_groups(self) -> None:
        self.param_groups = [group for part in self._parts for group in part.param_groups]


def parameters(model: torch.nn.Module) -> dict[str, list[torch.nn.Parameter]]:
    """The weight matrices as `params`, for Muon, and the rest (embedding, tied with the head, and norms)."""
    matrices = {name: p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name}
    return {
        "params": list(matrices.values()),
        "rest": [p for name, p in model.named_parameters() if name not in matrices],
    }
