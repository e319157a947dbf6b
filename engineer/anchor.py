"""A share of the default config in every proposal, against drift (EnvGen, arXiv 2403.12014)."""

from envgen.config import EnvConfig, SizeConfig

DIGITS = 12
"""A mean of equal ratios must not leave their range by a rounding error."""


def anchored(config: EnvConfig, default: EnvConfig, share: float) -> EnvConfig:
    """The config of a data set of which `share` (0 to 1) comes from `default` and the rest from `config`.

    For each map size: r = (1 - a) r_config + a r_default, and hole and wait ratio are the means over its instances. A data set
    drawn from it has the same sizes, the same number of wait instances and the same mean number of holes as the two drawn
    apart; the holes are no longer of two kinds. EnvGen mixes instances; one config a stage holds them as a mean.
    """
    sizes = {}
    for size in sorted(config.sizes.keys() | default.sizes.keys()):
        parts = [(weight * c.data_ratio, c) for weight, c in ((1 - share, config.sizes.get(size)), (share, default.sizes.get(size))) if c]
        total = sum(part for part, _ in parts)
        knobs = parts[0][1].model_copy(update={"data_ratio": 0.0})
        if total > 0:
            knobs = SizeConfig(
                data_ratio=round(total, DIGITS),
                hole_ratio=round(sum(part * c.hole_ratio for part, c in parts) / total, DIGITS),
                wait_ratio=round(sum(part * c.wait_ratio for part, c in parts) / total, DIGITS),
            )
        sizes[size] = knobs
    return EnvConfig(sizes=sizes)
