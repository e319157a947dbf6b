"""Answers that no model should give: good ones with something wrong, the same ones for the same seed."""

import random
from pathlib import Path

MEGABYTES = 10
ONCE_IN = 2_000
"""One answer in so many is blown up."""
SCRIPTS = "٠١٢٣٤०१२३４５６７８９٫−→⟶（）｛｝RС0О\u200b\u200d\u202e\u2066\ufeff\U0001f600é\u0301漢"
CONTROL = "".join(map(chr, [*range(32), 127, *range(128, 160), 0x2028, 0x2029, 0xFFFE, 0x10FFFF]))
NUMBERS = (
    *("9" * 400, "-1", "1e999", "-1e-999", "NaN", "-Infinity", "0x10", "1_000", "00", "+0.5", "." * 9),
    *(str(2**63), str(-(2**63) - 1), str(2**31), "1" * 4_400, "0." + "3" * 500, "1e-400", "٣", "½", "²"),
)
TOKENS = (
    *("{", "}", "[", "]", '"', "\\", ":", ",", "null", "true", '"config"', '"data_ratio"', "\\ud800"),
    *("R0C0", "->", "\n", "\t", " ", "answer", "</answer>", "<answer>", "```", "<|im_end|>", "\r"),
    "agent 0:",
)


def hostile(good: str, other: str, canary: Path, rng: random.Random) -> str:
    """A good answer with one to four things wrong; what any file can hold as UTF-8."""
    text = good
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice((_inside, _inside, _as_a_whole))(text, other, canary, rng)
    if rng.randrange(ONCE_IN) == 0:
        piece = rng.choice((text, *TOKENS, "{}", "[", rng.choice(SCRIPTS), rng.choice(CONTROL))) or " "
        text = text + piece * (MEGABYTES * 2**20 // len(piece)) + rng.choice(("", good))
    return text


def _inside(text: str, other: str, canary: Path, rng: random.Random) -> str:
    """A text with something else in one place."""
    at = rng.randint(0, len(text))
    end = min(len(text), at + rng.choice((0, 1, int(2 ** rng.uniform(0, 7)))))
    if digits := [place for place, letter in enumerate(text) if letter.isdigit()]:
        at, end = rng.choice(((at, end), (place := rng.choice(digits), place + 1)))
    new = rng.choice(
        (
            lambda: "",
            lambda: text[at:end] * rng.choice((2, 3, 300)),
            lambda: other[rng.randint(0, len(other)) :],
            lambda: "".join(rng.choices(CONTROL, k=rng.randint(1, 8))),
            lambda: "".join(rng.choices(SCRIPTS, k=rng.randint(1, 8))),
            lambda: "\0" * rng.choice((1, 1_000)),
            lambda: rng.choice(TOKENS),
            lambda: rng.choice(NUMBERS),
            lambda: rng.choice(_code(canary)),
            lambda: _nested(rng),
        )
    )
    return text[:at] + new() + text[end:]


def _as_a_whole(text: str, other: str, canary: Path, rng: random.Random) -> str:
    """A text that is cut, doubled, or written otherwise."""
    at = rng.randint(0, len(text))
    return rng.choice(
        (
            lambda: text[:at],
            lambda: text[at:],
            lambda: f"{other}\n{text}",
            lambda: f"{text}\n{other}",
            lambda: f"```json\n{text}\n```",
            lambda: rng.choice((str.upper, str.lower, str.swapcase))(text),
            lambda: text.replace(rng.choice(text or " "), rng.choice(TOKENS)),
            lambda: rng.choice(_code(canary)) + text,
            lambda: text[::-1],
            lambda: "",
        )
    )()


def _code(canary: Path) -> tuple[str, ...]:
    make = f"open({str(canary)!r}, 'w')"
    return (
        f"__import__('os').system('touch {canary}')",
        f"{{{{ cycler.__init__.__globals__.os.popen('touch {canary}').read() }}}}",
        f"!!python/object/apply:os.system ['touch {canary}']",
        f"cos\nsystem\n(S'touch {canary}'\ntR.",
        *(f"$(touch {canary})", f"`touch {canary}`", f"; touch {canary} #", f"| touch {canary}"),
        f"eval({make!r})",
        f"lambda: {make}",
        f"{{0.__class__.__init__.__globals__}} %s %n {{{make}}}",
        f"<script>fetch('file://{canary}')</script>",
        f"'); {make}; ('",
    )


def _nested(rng: random.Random) -> str:
    depth, (left, right) = int(2 ** rng.uniform(0, 14)), rng.choice((("[", "]"), ('{"a":', "}"), ("(", ")")))
    return left * depth + rng.choice(("", "1")) + right * rng.choice((depth, 0, depth // 2))
