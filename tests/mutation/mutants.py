"""Small defects that can be planted into the sources: an operator, a number, a condition, a returned value, a call.

`mutants_of` reads one file, Python by its syntax tree and C by its tokens, and lists every place where one defect fits.
What no test could notice is left out: annotations, docstrings, texts, logging, prefetching.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in",
    "is": "is not", "is not": "is", "and": "or", "or": "and", "+": "-", "-": "+", "*": "/", "/": "*", "//": "/",
    "%": "*", "**": "*", "@": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "&", "+=": "-=", "-=": "+=",
    "*=": "/=", "/=": "*=", "//=": "*=", "|=": "&=", "&=": "|=", "&&": "||", "||": "&&", "break": "continue",
    "continue": "break",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect.

    Attributes:
        path: of the source, from the root of the project.
        line: where it is, from 1.
        begin, end: positions in the text of what is replaced.
        old, new: what stands there, and what stands there instead.
    """

    path: str
    line: int
    begin: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.old!r} -> {self.new!r}"

    def planted(self, text: str) -> str:
        """Return the source with the defect."""
        return text[: self.begin] + self.new + text[self.end :]


def mutants_of(root: Path, path: Path) -> list[Mutant]:
    """List every defect that fits one file."""
    text = path.read_text()
    found = _of_python(text) if path.suffix == ".py" else _of_c(text)
    name = str(path.relative_to(root))
    mutants = {
        Mutant(name, text.count("\n", 0, begin) + 1, begin, end, text[begin:end], new)
        for begin, end, new in found
    }
    return sorted(mutants, key=lambda one: (one.begin, one.end, one.new))


# --- Python ---


def _of_python(text: str) -> Iterator[tuple[int, int, str]]:
    places = _Places(text)
    places.visit(ast.parse(text))
    return iter(places.found)


class _Places(ast.NodeVisitor):
    """Collects what to replace by what."""

    def __init__(self, text: str) -> None:
        self.found: list[tuple[int, int, str]] = []
        self._text = text
        lines = text.splitlines(keepends=True)
        self._begins = [0]
        for line in lines:
            self._begins.append(self._begins[-1] + len(line))
        # Columns of a syntax tree count bytes.
        self._lines = [line.encode() for line in lines]
        self._tokens = [
            (
                self._begins[token.start[0] - 1] + token.start[1],
                self._begins[token.end[0] - 1] + token.end[1],
                token.string,
            )
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type in {tokenize.OP, tokenize.NAME}
        ]

    def _at(self, line: int, column: int) -> int:
        return self._begins[line - 1] + len(self._lines[line - 1][:column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _replace(self, node: ast.expr | ast.stmt, new: str) -> None:
        self.found.append((*self._span(node), new))

    def _swap_between(self, left: ast.expr, right: ast.expr) -> None:
        """Swap the operator that stands between two expressions, whatever parentheses do."""
        begin, end = self._span(left)[1], self._span(right)[0]
        between = [
            token for token in self._tokens if begin <= token[0] and token[1] <= end and token[2] not in "()"
        ]
        operator = " ".join(token[2] for token in between)
        if operator in _SWAPS:
            self.found.append((between[0][0], between[-1][1], _SWAPS[operator]))

    # What is not looked into.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave errors alone: whether they are raised is decided elsewhere."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leave ``strict=True`` alone: it would tell of another defect."""
        if node.arg != "strict":
            self.visit(node.value)

    # What is replaced.

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            self._swap_between(left, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap_between(left, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(_is_text(side) for side in (node.left, node.right)):
            self._swap_between(node.left, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._swap_between(node.target, node.value)
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            self.found.append((self._span(node)[0], self._span(node.operand)[0], ""))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace(node, str(_other(node.value)))
        elif isinstance(node.value, float):
            self._replace(node, repr(2 * node.value or 1.0))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._replace(node.value, "None")
        self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        begin, end = self._span(test)
        self.found.append((begin, end, f"not ({self._text[begin:end]})"))

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not isinstance(call, ast.Call):
            return
        if re.match(r"(self\.)?_?(log|note|warnings)\b", ast.unparse(call.func)):
            return
        self._replace(node, "pass")
        self.visit(call)

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")


def _other(number: int) -> int:
    """Return the next number, or twice a large one: sizes and limits that are tuned may as well be one more."""
    return number + 1 if number < 1000 else 2 * number


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


# --- C ---

_HIDDEN = re.compile(
    r"""/\*[\s\S]*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|^[ \t]*#(?:\\\n|.)*|.*__builtin_prefetch.*""",
    re.MULTILINE,
)
#: Binary operators stand between spaces, by the formatter; so a pointer's star is none of them.
_C_OPERATOR = re.compile(r"(?<= )(<=|>=|==|!=|&&|\|\||<<|>>|\+=|-=|\*=|<|>|\+|-|\*|/|%|&|\||\^)(?= )")
_C_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def _of_c(text: str) -> Iterator[tuple[int, int, str]]:
    visible = _HIDDEN.sub(lambda hidden: re.sub(r"[^\n]", "~", hidden[0]), text)
    for operator in _C_OPERATOR.finditer(visible):
        yield operator.start(), operator.end(), _SWAPS[operator[0]]
    for number in _C_NUMBER.finditer(visible):
        yield number.start(), number.end(), str(_other(int(number[0])))
    for word in re.finditer(r"\b(break|continue)\b", visible):
        yield word.start(), word.end(), _SWAPS[word[0]]
