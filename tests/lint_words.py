"""`python tests/lint_words.py` fails on names and phrases that say nothing: see CONTRIBUTING.md."""

import ast
import re
import subprocess
import sys
from pathlib import Path

NAMES = {"found", "known", "given", "told", "kept", "shown", "one"}
PHRASES = re.compile(r"that of|those of|of its own|what is there|is told|none could be")


def problems(path: Path) -> list[str]:
    """`file:line: word` of every phrase of a file, and of every name that its Python binds."""
    text = path.read_text()
    said = [
        (n, match.group()) for n, line in enumerate(text.splitlines(), 1) for match in PHRASES.finditer(line)
    ]
    for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
        name = getattr(node, "id", getattr(node, "arg", getattr(node, "name", None)))
        if name in NAMES and not isinstance(getattr(node, "ctx", None), ast.Load | ast.Del):
            said.append((getattr(node, "lineno", 0), name))
    return [f"{path}:{line}: {word}" for line, word in said]


if __name__ == "__main__":
    kinds = ["*.py", "*.j2", "*.md", "*.yaml", ":!tests", ":!CHANGELOG.md"]
    files = subprocess.check_output(["git", "ls-files", "--", *kinds], text=True).split()
    sys.exit("\n".join(line for file in files for line in problems(Path(file))) or 0)
