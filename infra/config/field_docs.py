"""What the fields of a model mean: the string below each, as editors show it."""

import ast
import inspect
import textwrap
from itertools import pairwise

from pydantic import BaseModel


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Field -> its docstring on one line, for those that have one."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(ast.literal_eval(text.value).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
