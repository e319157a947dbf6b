"""The benchmark, with the rates that arXiv 2606.17682 publishes, measured on the authors' instances.

No intervals are published.
"""

from envgen.mapf import benchmark
from envgen.suites import Benchmark, Published

MODELS = {
    model: dict(zip(("3 agents", "4 agents", "5 agents"), rates, strict=True))
    for model, rates in {
        "Qwen3-4B base": ("14.83 / 14.00", "3.43 / 3.05", "1.44 / 1.22"),
        "Qwen3-4B + GRPO, random config": ("40.42 / 26.08", "26.67 / 16.10", "15.11 / 9.11"),
        "Qwen3-4B + GRPO + engineer": ("51.67 / 31.67", "33.14 / 21.33", "18.67 / 11.00"),
        "Kimi-K2.5": ("46.17 / 29.25", "26.95 / 17.90", "13.47 / 8.78"),
        "GPT-5.4": ("32.50 / 20.58", "17.05 / 10.86", "9.11 / 6.00"),
        "Grok-4.2": ("33.42 / 21.00", "23.43 / 15.33", "12.89 / 8.78"),
        "Gemini-3.1-Pro": ("24.50 / 15.33", "12.95 / 10.10", "4.78 / 3.56"),
    }.items()
}
"""Model -> number of agents -> valid and optimal rate over all map sizes and wait subsets.

The paper's cells of map sizes average to other valid rates in two places: 14.22 for Kimi-K2.5 with 5
agents, 13.05 for Gemini-3.1-Pro with 4.
"""

VARIANTS = {
    "no redesign": {"all": "28.61"},
    "V1": {"wr_025": "25.2", "wr_050": "18.4", "wr_075": "14.9", "all": "19.50"},
    "V2": {"wr_025": "36.6", "wr_050": "26.9", "wr_075": "19.7", "all": "27.73"},
    "V3": {"wr_025": "38.8", "wr_050": "31.0", "wr_075": "23.9", "all": "31.23"},
    "V4": {"wr_025": "41.4", "wr_050": "33.6", "wr_075": "25.2", "all": "33.40"},
    "V5": {"wr_025": "32.6", "wr_050": "24.6", "wr_075": "19.7", "all": "25.63"},
    "V6": {"wr_025": "45.2", "wr_050": "35.7", "wr_075": "27.3", "all": "36.06"},
    "V6, all training details": {"all": "27.11"},
    "V6, untrained engineer": {"all": "31.00"},
}
"""Qwen3-4B + GRPO with the engineer's context variants: name -> wait subset, or all 3,150 instances -> valid
rate where it is published."""

BENCHMARK = Benchmark(
    digest=benchmark.SUITE_SHA256,
    suite=benchmark.load_suite,
    read=benchmark.read_items,
    solved=benchmark.solve_rows,
    public="LARK-Lab/MAPF-FrozenLake-Benchmark",
    configs=tuple(benchmark.CONFIG_PREFIX + subset for subset in benchmark.SUBSETS),
    tables=(("agents", "wait subset"), ("map size", "agents")),
    mark="published, on the authors' instances, not ours",
    published=(
        Published("Valid / optimal %, beside published rates", "agents", True, MODELS),
        Published(
            "Valid % by wait subset, beside published context variants", "wait subset", False, VARIANTS
        ),
    ),
)
