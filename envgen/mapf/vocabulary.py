"""What a tokenizer of a small policy keeps whole in questions and answers about boards."""

from envgen.environment import Vocabulary
from envgen.mapf.problem import MAX_AGENTS, MAX_SIZE, cell_text

VOCABULARY = Vocabulary(
    # A cell, an agent's head, a number, or a run of anything else.
    pieces=r" ?\([0-9]+,[0-9]+\)|\n?Agent [0-9]:|[0-9]+(?:\.[0-9]+)?%?|[^0-9(\n]+|\n|\(",
    fixed=(
        *(f" {cell_text((row, column))}" for row in range(MAX_SIZE) for column in range(MAX_SIZE)),
        *(f"{newline}Agent {agent}:" for newline in ("", "\n") for agent in range(MAX_AGENTS)),
    ),
)
