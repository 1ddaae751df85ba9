"""The jinja2 environment that chat templates are compiled and rendered in (rule R2).

Three walls: names outside the allow-lists are refused when a template is loaded; every attribute,
call and arithmetic operation passes a check here; and loops, macros and values spend a budget that
is enforced by what `guarded` adds to the template's syntax tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jinja2 import Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from octavo.errors import TemplateError
from octavo.tokenization import template_filters as allowed
from octavo.tokenization.template_filters import budget_of

MAX_TEMPLATE_CHARS: Final = 1 << 17
MAX_DEPTH: Final = 100
MAX_NODES: Final = 10_000

_FORBIDDEN_NODES: Final = (
    nodes.Include,
    nodes.Import,
    nodes.FromImport,
    nodes.Extends,
    nodes.Block,
    nodes.ScopedEvalContextModifier,
    nodes.EvalContextModifier,
    nodes.Pow,
)


class GenerationTag(Extension):
    """{% generation %}...{% endgeneration %} marks the answer for training; here it shows."""

    tags = {"generation"}  # noqa: RUF012 - the base class asks for a set

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


@pass_context
def _shown(context: Context, value: object) -> str:
    """What {{ value }} writes."""
    text = allowed.to_text(budget_of(context), value)
    budget_of(context).tick(len(text))
    return text


class TemplateCage(ImmutableSandboxedEnvironment):
    """One per template. Rendering needs the budget among the variables (see `BUDGET`)."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[LoopControlExtension, GenerationTag],
            finalize=_shown,
            cache_size=0,
        )
        self.filters = dict(allowed.FILTERS)
        self.tests = dict(allowed.ALLOWED_TESTS)
        self.globals = {
            "namespace": allowed.namespace,
            "raise_exception": allowed.raise_exception,
            "range": allowed.bounded_range,
        }

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = guarded(super()._parse(source, name, filename))
        tree.set_environment(self)
        return tree

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:  # noqa: ARG002
        return allowed.is_allowed_attribute(obj, attr)

    def getattr(self, obj: object, attribute: str) -> object:
        """`obj.attribute`: an item of a mapping or namespace, or a method on the allow-list."""
        if isinstance(obj, str) and attribute in ("join", "replace"):
            return _TextMethod(obj, attribute)
        if isinstance(obj, Namespace):
            missing = self.undefined(obj=obj, name=attribute)
            return missing if attribute.startswith("_") else getattr(obj, attribute, missing)
        return super().getattr(obj, attribute)

    def unsafe_undefined(self, obj: object, attribute: str) -> Undefined:
        return self.undefined(
            f"it may not use {attribute!r} of a {type(obj).__name__}",
            name=attribute,
            obj=obj,
            exc=SecurityError,
        )

    def is_safe_callable(self, obj: object) -> bool:
        if isinstance(obj, Macro | LoopContext | Undefined | _TextMethod):
            return True
        if any(obj is function for function in self.globals.values()):
            return True
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        return allowed.is_allowed_attribute(owner, name)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget = budget_of(context)
        budget.tick()
        if isinstance(obj, _TextMethod):
            return obj.apply(budget, *args, **kwargs)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = budget_of(context)
        budget.tick()
        budget.operation(operator, left, right)
        result = super().call_binop(context, operator, left, right)
        budget.number(result)
        if isinstance(result, list | tuple):
            budget.value(result)
        return result


class _TextMethod:
    """`text.join` or `text.replace`: methods whose result may outgrow their operands."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    def apply(self, budget: Any, *args: Any) -> str:
        if self._name == "join":
            return allowed.join(budget, self._text, *args)
        return allowed.replace(budget, self._text, *args)


def guarded(tree: nodes.Template) -> nodes.Template:
    """Check the tree against the allow-lists and add the calls that spend the budget."""
    found = list(_walk(tree, 0))
    if len(found) > MAX_NODES:
        raise TemplateError(f"the chat template has {len(found)} nodes; {MAX_NODES} are allowed")
    for node in found:
        _check(node)
    for node in found:
        _add_ticks(node)
    _rewrite(tree)
    return tree


def _walk(node: nodes.Node, depth: int) -> Iterator[nodes.Node]:
    if depth > MAX_DEPTH:
        raise TemplateError(f"the chat template is nested deeper than {MAX_DEPTH}")
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child, depth + 1)


def _check(node: nodes.Node) -> None:
    what = None
    if isinstance(node, _FORBIDDEN_NODES):
        what = type(node).__name__.lower()
    elif isinstance(node, nodes.Filter) and node.name not in allowed.FILTERS:
        what = f"the filter {node.name}"
    elif isinstance(node, nodes.Tuple) and node.find(nodes.NSRef):
        what = "a namespace in a list of targets"
    elif isinstance(node, nodes.Test) and node.name not in allowed.ALLOWED_TESTS:
        what = f"the test {node.name}"
    if what is not None:
        raise TemplateError(f"line {node.lineno} of the chat template uses {what}: not supported")


def _add_ticks(node: nodes.Node) -> None:
    """At the head of every body: account for the text that stands in it."""
    for field in ("body", "else_"):
        body = getattr(node, field, None)
        if not body or isinstance(node, nodes.Template):
            continue
        outputs = [child for child in body if isinstance(child, nodes.Output)]
        data = [part for output in outputs for part in output.nodes]
        chars = sum(len(part.data) for part in data if isinstance(part, nodes.TemplateData))
        tick = _filter(nodes.Const("", lineno=1), allowed.TICK, nodes.Const(chars, lineno=1))
        body.insert(0, nodes.Output([tick], lineno=body[0].lineno))


def _rewrite(node: nodes.Node) -> None:
    """Put checks around list and dict displays, ticks before operations that may take long, and
    make a ~ b the sum of two texts."""
    for field, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, field, _rewritten(value))
        elif isinstance(value, list):
            value[:] = [
                _rewritten(item) if isinstance(item, nodes.Node) else item for item in value
            ]


def _rewritten(node: nodes.Node) -> nodes.Node:
    _rewrite(node)
    if isinstance(node, nodes.Filter | nodes.Test | nodes.Getitem):
        if isinstance(node.node, nodes.Expr):
            node.node = _filter(node.node, allowed.TICK)
    elif isinstance(node, nodes.Compare):
        node.expr = _filter(node.expr, allowed.TICK)
    elif isinstance(node, nodes.Assign) and isinstance(node.target, nodes.NSRef):
        assert isinstance(node.node, nodes.Expr)
        node.node = _filter(node.node, allowed.STORED)
    if isinstance(node, nodes.List | nodes.Dict):
        return _filter(node, allowed.CHECKED)
    if isinstance(node, nodes.Tuple) and node.ctx == "load":
        return _filter(node, allowed.CHECKED)
    if isinstance(node, nodes.Concat):
        first, *rest = (_filter(part, "string") for part in node.nodes)
        total: nodes.Expr = first
        for part in rest:
            total = nodes.Add(total, part, lineno=node.lineno)
        return total
    return node


def _filter(value: nodes.Expr, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None, lineno=value.lineno)
