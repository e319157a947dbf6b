"""Answers in the habits of language models: each is read as its author meant, or refused in one sentence."""

import random
import re
import time

import pytest
from contexts import DEFAULT, SPACE, assert_legal, env_config
from support.designs import answer_text

from engineer.answer import AnswerError, parse_answer, project
from envgen.config import EnvConfig

WANTED = env_config({3: (0.4, 0.3, 0.5), 5: (0.6, 0.2, 0.25)})
GOOD = answer_text("More of 5x5.", WANTED)
OTHER = answer_text("A draft.", env_config({3: (0.9, 0.4, 1.0), 5: (0.1, 0.4, 1.0)}))
PRETTY = """{
  "rationale": "More of 5x5.",
  "config": {
    "sizes": {
      "3": {"data_ratio": 0.4, "hole_ratio": 0.3, "wait_ratio": 0.5},
      "5": {"data_ratio": 0.6, "hole_ratio": 0.2, "wait_ratio": 0.25}
    }
  }
}"""
PYTHON = GOOD.replace('"', "'")
CONFIG = GOOD.partition('"config":')[2][:-1]


def each_number(form: str) -> str:
    """The answer with each number written in another form."""
    return re.sub(r"(?<=:)\d\.\d+", lambda match: form.format(float(match[0]), 100 * float(match[0])), GOOD)


def edited(edits: str, more: str = "") -> str:
    return f'{{"rationale": "More of 5x5.", "edits": {edits}{more}}}'


MEAN_WANTED = {
    "plain": GOOD,
    "pretty": PRETTY,
    "one line feed before each value": PRETTY.replace(": ", ":\n"),
    "Windows line ends": PRETTY.replace("\n", "\r\n"),
    "tabs": PRETTY.replace("  ", "\t"),
    "byte order mark": "\ufeff" + GOOD,
    "indented by no-break spaces": PRETTY.replace("  ", "\xa0 "),
    "fence": f"```json\n{PRETTY}\n```",
    "fence without a language": f"```\n{GOOD}\n```",
    "fence that is not closed": f"```json\n{GOOD}",
    "fence of JSON5": f"```json5\n{PRETTY.replace('0.25}', '0.25,}')}\n```",
    "two fences": f"First:\n```json\n{OTHER}\n```\nBetter:\n```json\n{GOOD}\n```",
    "remark before": f"Sure! Here is the config:\n\n{GOOD}",
    "remark after": f"{GOOD}\n\nThis shifts data to 5x5. Let me know if it helps!",
    "braces in the remark before": f"As {{3x3}} is solved and {{5x5}} is not: {GOOD}",
    "braces in the remark after": f"{GOOD}\nThe set {{3, 5}} is covered.",
    "sixty braces before": "{x} " * 60 + GOOD,
    "five hundred braces before": "{x} " * 500 + GOOD,
    "an open brace before": f"Use {{ as a bracket. {GOOD}",
    "a stray brace after": GOOD + "}",
    "closing tag of a tool after": f"{GOOD}</action_output></action_output>",
    "tool call": f"<tool_call>\n{GOOD}\n</tool_call>",
    "markdown heading and list": f"## Config\n- 3x3 is easy\n- 5x5 is hard\n\n{GOOD}",
    "bold around": f"**{GOOD}**",
    "quotation marks in the remark": f'The "5x5" boards are "hard". {GOOD}',
    "an apostrophe in the remark": f"Let's do it, it's time: {GOOD}",
    "in a list": f"[{GOOD}]",
    "in an answer object": f'{{"answer": {GOOD}}}',
    "in arguments of a function": f'{{"name": "design", "arguments": {GOOD}}}',
    "further keys": GOOD[:-1] + ',"confidence":0.8,"notes":["a",null,true]}',
    "keys in another order": f'{{"config":{CONFIG},"rationale":"More of 5x5."}}',
    "thought": f"<think>5x5 is hard. Let me give it more.</think>\n\n{GOOD}",
    "thought with a draft": f"<think>Maybe {OTHER}? No.</think>\n{GOOD}",
    "thought with an open draft": f"<think>Maybe {OTHER[:-20]} no.</think>\n{GOOD}",
    "only the end of a thought": f"Maybe {OTHER}? No.\n</think>\n\n{GOOD}",
    "two thoughts": f"<think>a {OTHER}</think> wait <think>b {OTHER}</think>{GOOD}",
    "thought of another name": f"<thinking>{OTHER}</thinking>{GOOD}",
    "thought in brackets": f"[THINK]{OTHER}[/THINK]{GOOD}",
    "long thought": f"<think>{'Hm, 5x5. ' * 9000}{OTHER}</think>{GOOD}",
    "long prose without tags": f"{'Consider 5x5 again. ' * 2000}\nFinal answer:\n{GOOD}",
    "thought equal to the answer": f"<think>{GOOD}</think>{GOOD}",
    "a second thought that does not end": f"{GOOD}\n<think>Was this right? {OTHER}",
    "draft in prose": f"My first idea was {OTHER} but 5x5 needs more, so:\n{GOOD}",
    "draft that breaks off": f"{OTHER[:80]}\nWait, again:\n{GOOD}",
    "draft that cannot be read": f"{OTHER.replace('0.90', '...')}\nIn full:\n{GOOD}",
    "the form repeated": f'{{"rationale":"<text>","config":{{"sizes":{{"3":<numbers>}}}}}}\n{GOOD}',
    "harmony": f"<|channel|>analysis<|message|>{OTHER}<|end|><|channel|>final<|message|>{GOOD}",
    "trailing comma in a stratum": GOOD.replace("0.50}", "0.50,}"),
    "trailing commas everywhere": GOOD.replace("}", ",}"),
    "trailing comma and line feed": PRETTY.replace("0.25}", "0.25,\n}"),
    "line comments": PRETTY.replace("0.5}", "0.5}").replace('"3": {', '// easy, "solved"\n      "3": {'),
    "comment after a value": PRETTY.replace("0.5},", "0.5}, // keep the 3x3's {waits}"),
    "block comments": GOOD.replace('"5"', '/* 5x5: "hard" } */"5"'),
    "comments of Python": PRETTY.replace("0.5},", "0.5},  # easy"),
    "comment before the end": PRETTY.replace("0.25}", "0.25 // was 0.5\n}"),
    "comment after a text": PRETTY.replace('5x5.",', '5x5.", // why'),
    "no commas at line ends": PRETTY.replace(",\n", "\n"),
    "no comma between strata": GOOD.replace('},"5"', '}"5"'),
    "no comma between numbers": GOOD.replace('0.40,"', '0.40 "'),
    "dict of Python": PYTHON,
    "dict of Python with whole keys": PYTHON.replace("'3'", "3").replace("'5'", "5"),
    "dict of Python with its literals": PYTHON[:-1] + ",'ok':True,'bad':False,'note':None}",
    "apostrophe in single quotes": PYTHON.replace("More of 5x5", "Let's do it"),
    "escaped apostrophe in single quotes": PYTHON.replace("More of 5x5", "Let\\'s do it"),
    "bare keys": re.sub(r'"(\w+)":', r"\1:", GOOD),
    "whole keys": GOOD.replace('"3":', "3:").replace('"5":', "5:"),
    "curly quotes": re.sub(r'"([^"]*)"', r"“\1”", GOOD),
    "quotes in the rationale": GOOD.replace("More of 5x5", 'More of "5x5" and "hard" boards'),
    "escaped quotes in the rationale": GOOD.replace("More of 5x5", 'More of \\"5x5\\"'),
    "braces in the rationale": GOOD.replace("More of 5x5", "More of {5x5} and } and {"),
    "line feed in the rationale": GOOD.replace("More of 5x5", "More\nof\t5x5"),
    "rationale in other letters": GOOD.replace("More of 5x5", "Größer: 5×5 → 多一些 🙂"),
    "rationale as a list": GOOD.replace('"More of 5x5."', '["More of 5x5."]'),
    "no rationale": GOOD.replace('"rationale":"More of 5x5.",', ""),
    "numbers as text": each_number('"{0}"'),
    "numbers as padded text": each_number('" {0} "'),
    "percent as text": each_number('"{1:g}%"'),
    "percent with a space": each_number('"{1:g} %"'),
    "bare percent": each_number("{1:g}%"),
    "plus signs": each_number("+{0}"),
    "no leading zero": GOOD.replace("0.", "."),
    "exponents": each_number("{0:e}"),
    "many digits": each_number("{0:.15f}"),
    "shares in percent": GOOD.replace('"data_ratio":0.40', '"data_ratio":40').replace("0.60", "60"),
    "shares as weights": GOOD.replace('"data_ratio":0.40', '"data_ratio":2').replace("0.60", "3"),
    "shares that sum to 2": GOOD.replace('"data_ratio":0.40', '"data_ratio":0.8').replace("0.60", "1.2"),
    "a stratum outside": GOOD.replace('"5":', '"7":{"data_ratio":0.5},"5":'),
    "edits of everything": edited(GOOD.partition('"sizes":')[2][:-2]),
    "edits under the key": edited(CONFIG),
}


def after(*shares: float, holes: float = 0.3, waits: float = 0.25) -> EnvConfig:
    """The config before with these shares, and these knobs of 5x5."""
    small, large = shares or (0.5, 0.5)
    return env_config({3: (small, 0.3, 0.25), 5: (large, holes, waits)})


CLAIM = ', "evidence": [{"stratum": "5", "metric": "n", "value": 9}]'
MEAN = {
    "one share": (edited('{"5": {"data_ratio": 0.3}}'), after(0.7, 0.3)),
    "one knob": (edited('{"5": {"hole_ratio": 0.2}}'), after(holes=0.2)),
    "all shares in percent": (edited('{"3": {"data_ratio": 20}, "5": {"data_ratio": 80}}'), after(0.2, 0.8)),
    "all data to one": (edited('{"5": {"data_ratio": 1}}'), after(0, 1)),
    "a share as text": ("```json\n" + edited("{'5': {'data_ratio': '30%'},}") + "\n```", after(0.7, 0.3)),
    "an empty stratum beside": (edited('{"3": {}, "5": {"wait_ratio": 1.0}}'), after(waits=1)),
    "null where nothing changes": (
        edited('{"5": {"data_ratio": null, "wait_ratio": 1.0}}', ', "config": null'),
        after(waits=1),
    ),
    "edits after a draft": (f"<think>{GOOD}</think>" + edited('{"5": {"data_ratio": 0.3}}'), after(0.7, 0.3)),
    "evidence": (edited('{"5": {"wait_ratio": 1.0}}', CLAIM), after(waits=1)),
}

NO_NUMBER = r"no number of the answer can be used; the keys are 3, 5, each with data_ratio, hole_ratio"
REFUSED = {
    "nothing": ("", "holds no JSON object"),
    "a refusal": ("I cannot help with that.", "holds no JSON object"),
    "a thought that does not end": (f"<think>{GOOD}", "holds no JSON object"),
    "an answer in the thought only": (f"<think>{GOOD}</think>Done.", "holds no JSON object"),
    "YAML": ("rationale: x\nconfig:\n  sizes:\n    3: {data_ratio: 1}", "lacks edits"),
    "another key": (GOOD.replace("sizes", "strata"), "lacks edits"),
    "the bare strata": (CONFIG, "lacks edits"),
    "a config as text": ('{"config": "keep it"}', "lacks edits"),
    "a config that is a list": ('{"config": [1, 2]}', "lacks edits"),
    "strata that are a list": ('{"config": {"sizes": [1, 2]}}', "lacks edits"),
    "edits as a list": ('{"edits": [{"stratum": "5", "data_ratio": 0.3}]}', "lacks edits"),
    "the schema": ('{"type": "object", "properties": {"rationale": {}, "config": {}}}', "lacks edits"),
    "config and edits": (edited("{}", ', "config": {}'), "both config and edits"),
    "a good draft and a refused answer": (f"{OTHER}\n{GOOD[:-1]}", "cannot be read"),
    "labels as keys": (GOOD.replace('"3"', '"3x3"').replace('"5"', '"5x5"'), NO_NUMBER),
    "camel case": (GOOD.replace("_r", "R"), NO_NUMBER),
    "null everywhere": (each_number("null"), NO_NUMBER),
    "words for numbers": (each_number('"more"'), NO_NUMBER),
    "changes in words": (each_number('"{0} -> {1}"'), NO_NUMBER),
    "an empty config": ('{"rationale": "x", "config": {"sizes": {}}}', NO_NUMBER),
    "empty edits": (edited("{}"), NO_NUMBER),
    "edits of unknown knobs": (edited('{"5": {"holes": 0.3}}'), NO_NUMBER),
    "edits without knobs": (edited('{"5": 0.3}'), NO_NUMBER),
    "one share of another scale": (edited('{"5": {"data_ratio": 30}}'), "above 1 needs one for every strat"),
    "no share at all": (GOOD.replace("0.40", "0").replace("0.60", "0"), "every data_ratio is 0"),
    "NaN": (each_number("NaN"), "NaN"),
    "infinity": (each_number("Infinity"), "infinity"),
    "minus infinity": (each_number("-Infinity"), "infinity"),
    "a good answer that is too long": (GOOD.replace("More", "x" * 20_000), "the last 20000 were read"),
    "a number too large": (each_number("1e999"), "number that large"),
    "a repeated key": (GOOD.replace('"wait_ratio"', '"hole_ratio"'), "'hole_ratio' stands twice"),
    "a repeated key, trailing comma": (PYTHON.replace("wait", "hole").replace("}", ",}"), "stands twice"),
    "a repeated stratum": (GOOD.replace('"5"', '"3"'), "'3' stands twice"),
    "deep nesting": (GOOD.replace("0.40", "[" * 30 + "]" * 30), "nested too deeply"),
    "deep nesting, trailing comma": (GOOD.replace("0.40", "[" * 30 + "1,]" + "]" * 29), "cannot be read"),
    "an ellipsis": (GOOD.replace('"5":{', '...,"5":{'), "cannot be read"),
    "placeholders": (each_number("<number>"), "cannot be read"),
    "sums": (each_number("{0} + 0.1"), "cannot be read"),
    "fractions": (each_number("1/4"), "cannot be read"),
    "an answer that breaks off": (GOOD[:-30], "cannot be read"),
    "a fence that breaks off": (f"```json\n{GOOD[:110]}\n```", "cannot be read"),
    "half a surrogate pair": (GOOD.replace("More", "\\ud83d"), "surrogates not allowed"),
    "code": ("import os\nconfig = {k: os.system('false') for k in (3, 5)}", "cannot be read"),
    "a bracket of another kind": (GOOD.replace("0.50}", "0.50]"), "cannot be read"),
}


def read(text: str) -> tuple[EnvConfig | None, str]:
    """Return the design in a text, or why there is none."""
    try:
        return design_of(text), ""
    except AnswerError as error:
        return None, str(error)


def design_of(text: str) -> EnvConfig:
    return project(parse_answer(text, SPACE)[1], SPACE, DEFAULT)[0]


@pytest.mark.parametrize("text", MEAN_WANTED.values(), ids=list(MEAN_WANTED))
def test_a_habit_does_not_change_what_is_read(text: str):
    assert design_of(text) == WANTED


@pytest.mark.parametrize(("text", "config"), MEAN.values(), ids=list(MEAN))
def test_what_edits_do_not_name_stays(text: str, config: EnvConfig):
    assert design_of(text) == config


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_design_is_refused_in_one_sentence(text: str, reason: str):
    with pytest.raises(AnswerError, match=reason) as refused:
        design_of(text)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)


STYLES = [
    lambda text: text,
    lambda text: text.replace('"', "'"),
    lambda text: text.replace("}", ",}"),
    lambda text: text.replace("},", "}, // next\n"),
    lambda text: re.sub(r'"(\w+)":', r"\1:", text),
    lambda text: f"```json\n{text}\n```",
    lambda text: f"<think>{OTHER}</think>{text}",
    lambda text: f"{OTHER} or rather {text}",
]
POISONS = [
    lambda text, rng: text[: rng.randrange(15, text.rindex("}"))],
    lambda text, rng: re.sub(r"\d\.\d\d", rng.choice(["NaN", "1e999", "0.1.2", "0x1", "-", "07/8"]), text),
    lambda text, rng: text.replace("hole_ratio", "wait_ratio"),
    lambda text, rng: text.replace("0.30", "[" * 25 + "]" * 25),
    lambda text, rng: re.sub(r"(\w)_ratio", r"\1" + rng.choice(["Ratio", " ratio", "-ratio"]), text),
    lambda text, rng: text.replace("config", rng.choice(["conf", "Config", "configs", ""])),
    lambda text, rng: text.replace("sizes", rng.choice(["size", "strata", "Sizes"])),
    lambda text, rng: text.replace("{", rng.choice(["[", "(", "<"]), 1),
]
JUNK = [*"{}[],:\"'\\“”/#%-. \n", '{"', '":', "/*", "//", "<think>", "</think>", '"config":', '"edits":{']
JUNK += ["0.5", '"5":', "1e9", "null", "True", "\ud800", "９", "{" * 50, '{"a":' * 30, '"a":1,' * 40]
JUNK += [" " * 200, GOOD]


def hostile(seed: int) -> tuple[str, bool]:
    """A text, and whether it may be read: a poisoned answer in some style never, noise or damage perhaps."""
    rng = random.Random(seed)
    style = rng.choice(STYLES)
    if seed % 3 == 0:
        return style(rng.choice(POISONS)(GOOD, rng)), False
    length = int(2 ** rng.uniform(0, 4 if rng.random() < 0.95 else 9))
    if seed % 3 == 1:
        return "".join(rng.choices(JUNK[:-1], k=length)), True
    text = style(GOOD)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(JUNK) + text[at + rng.randrange(10) :]
    return text * min(length, 60), True


@pytest.mark.parametrize(
    "count", [600, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
)
def test_hostile_answers_are_refused_or_legal_and_cost_milliseconds(count: int):
    for seed in range(count):
        text, may_be_read = hostile(seed)
        config, refusal = read(text)
        assert may_be_read or refusal, text
        assert len(refusal) < 300
        if config:
            assert_legal(config, SPACE)
        # Other processes may slow one measurement down, not three.
        assert len(text) < 1000 or any(seconds(text) < 0.05 for _ in range(3))


def seconds(text: str) -> float:
    started = time.process_time()
    read(text)
    return time.process_time() - started
