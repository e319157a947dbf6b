"""docs/engineer.md says what the code does."""

from pathlib import Path

from engineer.context import VARIANTS, Module

PAGE = (Path(__file__).parents[2] / "docs" / "engineer.md").read_text()
LETTERS = {
    Module.FAILURES: "F",
    Module.GUIDELINE: "G",
    Module.HISTORY: "H",
    Module.HISTORY_WITHOUT_DEFAULT: "H(without default)",
    Module.RATIONALE: "S",
    Module.BOOKKEEPING: "T",
    Module.WAITS: "W",
    Module.TRAINING: "T(full)",
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    table = PAGE.partition(f"## {heading}\n")[2].partition("\n##")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("| `")
    ]


def test_the_page_lists_every_variant_with_its_modules():
    assert {name.strip("`"): modules for name, modules in rows("Variants")} == {
        name: " ".join(LETTERS[m] for m in VARIANTS[name]) for name in VARIANTS
    }
