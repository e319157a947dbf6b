"""What the design question says of `contexts.measured_context`, to the letter."""

ALWAYS = """\
You write the configs by which the training data of a language model are drawn, one config a stage. The model plans moves for several agents over \
square grids with holes: all reach their goals without collisions, at the least sum of costs.
Goal: the highest mean valid rate over all map sizes of a fixed validation set after the last stage. Its instances: 3x3 40, 25% where a wait is \
needed; 5x5 40, 25% where a wait is needed.
Stage 2 of stages 0 to 3 is done. Left: 1, each of 480 training instances.
Training is GRPO: 8 answers to an instance are compared. It teaches only where some of them are better than others; data that are always or never \
solved teach nothing.
The model is trained on your config whatever follows.
Numbers of each map size: data_ratio (data), its share of the instances, 0 to 1, all sum to 1; hole_ratio (holes), the share of the cells that are \
holes, 0.20 to 0.40; wait_ratio (waits), the share of its instances that cannot be solved at the least cost unless some agent waits, 0 to 1.
Current config:
3x3: data 0.70, holes 0.35, waits 0.75
5x5: data 0.30, holes 0.20, waits 0.10
"""
ANSWER = """
Answer with JSON: a reason of one or two sentences, then the numbers that you change, for example
{"rationale":"<text>","edits":{"5":{"data_ratio":0.30,"hole_ratio":0.20,"wait_ratio":0.00}}}
What you do not name stays; shares are scaled to sum to 1. Optional: "evidence":[{"stratum":"5","metric":"valid","value":0.35}], numbers that you \
rely on."""
STAGE_0 = """\
Stage 0:
3x3: data 0.50, holes 0.30, waits 0.25, then valid 90%
5x5: data 0.50, holes 0.30, waits 0.25, then valid 20%
"""
LATER = """\
3x3: data 0.70 (+0.10), holes 0.35 (+0.05), waits 0.75 (+0.25), then valid 100%
5x5: data 0.30 (-0.10), holes 0.20 (-0.05), waits 0.10 (+0.10), then valid 50%
"""
HISTORY = (
    "Earlier stages, oldest first: config (in parentheses its change), then the valid rate that followed.\n"
)
TEXTS = {
    "F": """\
Answers after this stage:
3x3: valid 100% [91%, 100%], optimal 88%, changed by +5 points [-2, +12]; failures: none; no signal in 88% of its training groups
5x5: valid 50% [35%, 65%], optimal 25%, changed by +20 points [+10, +30]; failures: conflict 38%, goal not reached 12%; no signal in 25% of its \
training groups
""",
    "W": """\
Valid by whether an optimal plan needs a wait, which wait_ratio sets:
3x3: where a wait is needed 100% [72%, 100%], where none is 100% [89%, 100%]
5x5: where a wait is needed 10% [2%, 40%], where none is 63% [46%, 78%]
""",
    "E": """\
Failed answers of this stage's training: the end of the question, the end of the answer, what was wrong.
5x5: question "hole (1,1)\\nPlan:"; answer "Agent 0: (0,0)"; Agent 0 does not reach its goal
""",
    "G": """\
Guideline. Change few numbers, in small steps, and keep what works. Give most data to what is solved about half of the time; little, but not \
nothing, to what always or never is. Turn knobs up where most answers are valid, down where most fail. Ask for more waits where plans are valid but \
boards that need one are not mostly solved; for fewer where plans mostly fail. More holes only where nearly all is solved. Where intervals overlap \
widely, treat rates as equal. Judge an edit by what followed it, and take it back if results fell clearly.
""",
    "H": f"""\
{HISTORY}Stage 1:
3x3: data 0.60, holes 0.30, waits 0.50, then valid 95%
5x5: data 0.40, holes 0.25, waits 0.00, then valid 30%
Stage 2:
{LATER}""",
    "HD": f"""\
{HISTORY}{STAGE_0}Stage 1:
3x3: data 0.60 (+0.10), holes 0.30, waits 0.50 (+0.25), then valid 95%
5x5: data 0.40 (-0.10), holes 0.25 (-0.05), waits 0.00 (-0.25), then valid 30%
Stage 2:
{LATER}""",
    "S": "Your reason for the current config: Less of 5x5.\n",
    "T": """\
Training details. Passes over the instances of a stage: 2. Algorithm: GRPO. Learning rate: 0.0003. Answer tokens: 40. Reward: valid 1.0, optimal \
0.5. Hyperparameters: beta 0.0, loss_type "dapo", bf16 false.
""",
}
