"""Random generators derived from what they are for: no draw depends on another."""

import hashlib
from typing import Annotated

import numpy as np
from pydantic import Field

Seed = Annotated[int, Field(ge=0, lt=2**53)]
"""Seed that a person chooses; servers and browsers keep larger integers badly."""


def seed_sequence(seed: int, *path: int | str) -> np.random.SeedSequence:
    """Seed for a curriculum seed and a path as (stage, purpose, stratum, shard); words hash to 32 bits."""
    key = [
        part if isinstance(part, int) else int.from_bytes(hashlib.sha256(part.encode()).digest()[:4])
        for part in path
    ]
    return np.random.SeedSequence(entropy=seed, spawn_key=tuple(key))


def generator(seed: int, *path: int | str) -> np.random.Generator:
    """A numpy generator on `seed_sequence`."""
    return np.random.default_rng(seed_sequence(seed, *path))


def seed_integer(seed: int, *path: int | str) -> int:
    """A 32-bit seed for libraries that take an integer."""
    return int(seed_sequence(seed, *path).generate_state(1)[0])
