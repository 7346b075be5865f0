"""A function's name says what it does: no bare participle, preposition or adverb."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.test_imports import PACKAGES, ROOT, modules

WORDS = """shown made told kept laid heard came said given taken held found left seen sent built
rebuilt gone lost spent known chosen written drawn bound curating naming waiting about above across
after against ahead along anew apart around aside away back before behind below beside between beyond
by down during for from in inside into of off on onto out over past since through together toward
under until up upon with within without again already always ever instead later never now still"""
NO_VERB = re.compile(
    rf"_*(?:{'|'.join(WORDS.split())}|(?!(?:embed|exceed|feed|need|seed)\b)[a-z]+ed)_*"
)
PUBLIC = {"HistoryCurated.of", "HistoryLimits.tuned", "UsageAnchor.after"}
"""Methods that callers know; no other is let through."""


def find_functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, int]]:
    """Yield the name of each function, with its class before it, and its line; no properties."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not any(
            "property" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield f"{owner}.{node.name}", node.lineno
        yield from find_functions(node, node.name if isinstance(node, ast.ClassDef) else owner)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_name_of_a_function_has_a_verb(package: str) -> None:
    for path in modules(package):
        for name, line in find_functions(ast.parse(path.read_text(encoding="utf-8"))):
            found = NO_VERB.fullmatch(name.rpartition(".")[2])
            assert name in PUBLIC or not found, f"{path.relative_to(ROOT)}:{line}: {name}"
