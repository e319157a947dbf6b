"""A share of the default config in every proposal, against drift (EnvGen, arXiv 2403.12014)."""

from envgen.config import SHARE, EnvConfig, Part

DIGITS = 12
"""A mean of equal numbers must not leave their range by a rounding error."""


def anchored(config: EnvConfig, default: EnvConfig, share: float) -> EnvConfig:
    """The config of a data set of which `share` (0 to 1) comes from `default` and the rest from `config`.

    For each stratum: r = (1 - a) r_config + a r_default, and each knob is its mean over the instances. A data
    set drawn from it has the same shares, the same number of instances with a label that a knob asks for, and
    the same mean of every other knob as the two drawn apart; the instances are no longer of two kinds. EnvGen
    mixes instances; one config a stage holds them as a mean.
    """
    mixed = {}
    for name in dict.fromkeys([*config.strata, *default.strata]):
        found = ((1 - share, config.strata.get(name)), (share, default.strata.get(name)))
        parts = [(weight * part.data_ratio, part) for weight, part in found if part]
        total = sum(amount for amount, _ in parts)
        numbers = {SHARE: 0.0, **parts[0][1].knobs}
        if total > 0:
            for knob in parts[0][1].knobs:
                numbers[knob] = round(sum(amount * part[knob] for amount, part in parts) / total, DIGITS)
            numbers[SHARE] = round(total, DIGITS)
        mixed[name] = Part.model_validate(numbers)
    return EnvConfig(strata=mixed, key=config.key)
