"""What the modules of a design prompt say of `contexts.measured_context`, to the letter, in both wordings."""

from engineer.context import Module
from engineer.spec import Wording

WORDINGS: tuple[Wording, ...] = ("compact", "full")

# The compact wording: the shipped tiny policy was trained on these very texts.

HEAD = """\
Design the next training environment of a policy that moves several agents over grids with holes.
Current config:
3x3: data 0.70, holes 0.35, waits 0.75
5x5: data 0.30, holes 0.20, waits 0.10
"""
TAIL = """\
Answer with JSON only: a rationale of one or two sentences, then the config with data_ratio (share of the instances, all sizes sum to 1), \
hole_ratio (0.20 to 0.40) and wait_ratio (share of instances that need a wait) for each map size."""
FAILURES = """\
Answers of the policy after this stage:
3x3: valid 100%, optimal 88%, parse error 0%, illegal move 0%, hole collision 0%, conflict 0%, goal not reached 0%
5x5: valid 50%, optimal 25%, parse error 0%, illegal move 0%, hole collision 0%, conflict 38%, goal not reached 12%
"""
GUIDELINE = """\
Guideline: give most data to sizes that are solved about half of the time, less to sizes that are nearly always or nearly never solved. \
Ask for more waits where plans are valid but boards that need one are not mostly solved; for fewer where plans mostly fail. \
More holes only where nearly all is solved.
"""
STAGE_0 = """\
Stage 0, 3x3: data 0.50, holes 0.30, waits 0.25, then valid 90%
Stage 0, 5x5: data 0.50, holes 0.30, waits 0.25, then valid 20%
"""
STAGE_1 = """\
Stage 1, 3x3: data 0.60, holes 0.30, waits 0.50, then valid 95%
Stage 1, 5x5: data 0.40, holes 0.25, waits 0.00, then valid 30%
"""
HISTORY = f"Earlier stages:\n{STAGE_0}{STAGE_1}"
WITHOUT_DEFAULT = f"Earlier stages:\n{STAGE_1}"
RATIONALE = "Your reason a stage ago: Less of 5x5.\n"
BOOKKEEPING = "Training: stage 2 of stages 0 to 3 is done. Each stage has 480 instances and 2.00 epochs.\n"
WAITS = """\
Valid where a wait is needed, then where none is:
3x3 100% 100%
5x5 10% 63%
"""
TRAINING = f"""\
{BOOKKEEPING}\
Algorithm: GRPO, group size 8, learning rate 0.0003, answer tokens 40.
Options: agents 2, map_sizes [3, 5].
Reward: valid 1.0, optimal 0.5.
Hyperparameters: beta 0.0, loss_type "dapo", bf16 false.
"""

# The full wording.

FULL_HEAD = """\
You design the next training environment of a policy, a language model that plans moves for several agents over square grids with \
holes: all reach their goals without collisions, at the least sum of costs. The policy learns by reinforcement learning on instances \
that are drawn from your config, and is then evaluated on a fixed set of instances. Neither that set nor the reward is yours to change.
For each map size the config says
- data_ratio (data): the share of the training instances that have this size; the shares of all sizes sum to 1.
- hole_ratio (holes): the share of the cells that are holes, 0.20 to 0.40.
- wait_ratio (waits): the share of its instances that cannot be solved at the least cost unless some agent waits, 0 to 1.

Current config, on which the policy was trained last:
3x3: data 0.70, holes 0.35, waits 0.75
5x5: data 0.30, holes 0.20, waits 0.10
"""
FULL_TAIL = """
Answer with JSON only, in this form, with every map size: first a rationale of one or two sentences (600 characters at most), then the config.
{"rationale":"<text>","config":{"sizes":{"3":{"data_ratio":<number>,"hole_ratio":<number>,"wait_ratio":<number>},\
"5":{"data_ratio":<number>,"hole_ratio":<number>,"wait_ratio":<number>}}}}"""
FULL_FAILURES = """
Answers of the policy after this stage (in brackets 95 % intervals):
3x3: 40 answers, valid 100% [91%, 100%], optimal 88% [74%, 95%]; valid rate changed by +5 points [-2, +12] in this stage; \
failures: parse error 0, illegal move 0, hole collision 0, conflict 0, goal not reached 0; no reward variance in 88% of its training groups
5x5: 40 answers, valid 50% [35%, 65%], optimal 25% [14%, 40%]; valid rate changed by +20 points [+10, +30] in this stage; \
failures: parse error 0, illegal move 0, hole collision 0, conflict 15, goal not reached 5; no reward variance in 25% of its training groups
"""
FULL_GUIDELINE = """
Guideline. Edit locally: change few knobs, in small steps, and keep what works. Spend most of the budget just below the competence \
frontier, where some answers succeed and some fail, because only differing rewards teach. Where nothing is ever solved, or everything \
always is, there is no learning signal: cut the share of such a region rather than push its difficulty, but rehearse a little of what \
is solved. Turn difficulty knobs up where most answers are valid, down where most fail. Distrust small samples: when two intervals \
overlap widely, treat the rates as equal. Judge an edit by what followed it, and take it back if results fell clearly. Where raw \
failure counts contradict an earlier summary, believe the counts and correct the summary.
"""
FULL_HISTORY_HEAD = """
Earlier stages, oldest first: the config of each (in parentheses its edit against the stage before), then the valid rate that followed.
"""
FULL_STAGE_0 = """\
Stage 0:
3x3: data 0.50, holes 0.30, waits 0.25, then valid 90% [77%, 96%]
5x5: data 0.50, holes 0.30, waits 0.25, then valid 20% [10%, 35%]
"""
FULL_STAGE_1_FIRST = """\
Stage 1:
3x3: data 0.60, holes 0.30, waits 0.50, then valid 95% [83%, 99%]
5x5: data 0.40, holes 0.25, waits 0.00, then valid 30% [18%, 45%]
"""
FULL_STAGE_1 = """\
Stage 1:
3x3: data 0.60 (+0.10), holes 0.30, waits 0.50 (+0.25), then valid 95% [83%, 99%]
5x5: data 0.40 (-0.10), holes 0.25 (-0.05), waits 0.00 (-0.25), then valid 30% [18%, 45%]
"""
FULL_STAGE_2 = """\
Stage 2, the edit that led to the current config:
3x3: data 0.70 (+0.10), holes 0.35 (+0.05), waits 0.75 (+0.25), then valid 100% [91%, 100%], changed by +5 points [-2, +12]
5x5: data 0.30 (-0.10), holes 0.20 (-0.05), waits 0.10 (+0.10), then valid 50% [35%, 65%], changed by +20 points [+10, +30]
"""
FULL_HISTORY = FULL_HISTORY_HEAD + FULL_STAGE_0 + FULL_STAGE_1 + FULL_STAGE_2
FULL_WITHOUT_DEFAULT = FULL_HISTORY_HEAD + FULL_STAGE_1_FIRST + FULL_STAGE_2
FULL_RATIONALE = "\nYour reason for the current config, written a stage ago: Less of 5x5.\n"
FULL_BOOKKEEPING = (
    "\nTraining: stage 2 of stages 0 to 3 is done. Instances of each stage: 480; passes over them: 2.\n"
)
FULL_WAITS = """
Valid answers by whether an optimal plan needs a wait, which is what wait_ratio sets:
3x3: where a wait is needed 100% [72%, 100%] of 10, where none is 100% [89%, 100%] of 30
5x5: where a wait is needed 10% [2%, 40%] of 10, where none is 63% [46%, 78%] of 30
"""
FULL_TRAINING = f"""{FULL_BOOKKEEPING}\
Algorithm: GRPO.
Answers to each instance, compared with each other: 8.
Learning rate: 0.0003.
Options of the environment: agents 2, map_sizes [3, 5].
Tokens of an answer at most: 40.
Reward of an answer, fixed, by the weights of its terms: valid 1.0, optimal 0.5.
Hyperparameters: beta 0.0, loss_type "dapo", bf16 false.
"""

MODULES: dict[Wording, dict[Module, str]] = {
    "compact": {
        Module.FAILURES: FAILURES,
        Module.GUIDELINE: GUIDELINE,
        Module.HISTORY: HISTORY,
        Module.HISTORY_WITHOUT_DEFAULT: WITHOUT_DEFAULT,
        Module.RATIONALE: RATIONALE,
        Module.BOOKKEEPING: BOOKKEEPING,
        Module.WAITS: WAITS,
        Module.TRAINING: TRAINING,
    },
    "full": {
        Module.FAILURES: FULL_FAILURES,
        Module.GUIDELINE: FULL_GUIDELINE,
        Module.HISTORY: FULL_HISTORY,
        Module.HISTORY_WITHOUT_DEFAULT: FULL_WITHOUT_DEFAULT,
        Module.RATIONALE: FULL_RATIONALE,
        Module.BOOKKEEPING: FULL_BOOKKEEPING,
        Module.WAITS: FULL_WAITS,
        Module.TRAINING: FULL_TRAINING,
    },
}
HEADS, TAILS = {"compact": HEAD, "full": FULL_HEAD}, {"compact": TAIL, "full": FULL_TAIL}
TOLD = (Module.FAILURES, Module.GUIDELINE)
DESIGNED = (*TOLD, Module.HISTORY_WITHOUT_DEFAULT)
SHOWN: dict[str, tuple[Module, ...]] = {
    "V1": (Module.FAILURES,),
    "V2": TOLD,
    "V3": (*TOLD, Module.HISTORY),
    "V4": DESIGNED,
    "V5": (*DESIGNED, Module.RATIONALE),
    "V6": (*DESIGNED, Module.BOOKKEEPING),
    "V6S": (*DESIGNED, Module.RATIONALE, Module.BOOKKEEPING),
    "V6W": (*DESIGNED, Module.BOOKKEEPING, Module.WAITS),
    "full-details": (*DESIGNED, Module.TRAINING),
    "no-history": (*TOLD, Module.BOOKKEEPING),
}
