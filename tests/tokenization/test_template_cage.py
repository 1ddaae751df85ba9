"""Hostile templates (rule R2): no way out of the cage, no bomb that goes off."""

from __future__ import annotations

import resource
import time

import pytest

from octavo.config.front_limits import FrontLimits
from octavo.errors import TemplateError
from octavo.tokenization.chat_template import ChatTemplate

MESSAGES = [{"role": "user", "content": "hello"}]

ESCAPES = [
    "{{ ''.__class__ }}{{ ''.__class__.__mro__ }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{{ ''['__class__']['__mro__'] }}",
    "{{ '' | attr('__class__') }}",
    "{{ ['__class__'] | map('attr', 'x') | list }}",
    "{{ messages | map(attribute='__class__') | map(attribute='__mro__') | list }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
    "{{ '{0.__class__}'.format_map({'0': 1}) }}",
    "{{ '%s' | format(messages) }}",
    "{{ '%(x)s' % {'x': 1} }}",
    "{{ self._TemplateReference__context }}{{ self.__init__ }}{{ self }}",
    "{{ raise_exception.__globals__ }}{{ raise_exception.__globals__.os }}",
    "{{ range.__self__ }}{{ range }}",
    "{{ namespace.__init__.__globals__ }}{{ namespace }}",
    "{% set ns = namespace() %}{{ ns.__class__ }}{{ ns.__init__.__globals__ }}",
    "{% set ns = namespace(a=1) %}{{ ns }}",
    "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "{% macro m() %}{% endmacro %}{{ m._environment.loader }}{{ m }}",
    "{% for x in [1] %}{{ loop._undefined.__init__.__globals__ }}{% endfor %}",
    "{% for x in [1] %}{{ loop }}{% endfor %}",
    "{{ cycler('a').__init__.__globals__ }}",
    "{{ joiner.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__ }}",
    "{{ lipsum() }}",
    "{{ dict(a=1).__class__.x }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% from 'os' import path %}",
    "{% extends 'x' %}",
    "{% block x %}{% endblock %}",
    "{% autoescape true %}{{ 1 }}{% endautoescape %}",
    "{% do messages.append(1) %}",
    "{{ messages.append(1) }}",
    "{{ messages.clear() }}",
    "{{ messages[0].update({'a': 1}) }}",
    "{{ messages[0].pop('role') }}",
    "{{ messages[0].setdefault('x', 1) }}",
    "{{ ''.encode().decode }}",
    "{{ ''.join.__self__.__class__.mro() }}",
    "{{ ''.upper.__func__.__code__ }}{{ ''.upper.__self__ }}{{ ''.upper }}",
    "{{ messages[0].get.__self__ }}{{ messages[0].get }}",
    "{{ x.__class__.y }}",
    "{{ (1).real.numerator.x }}",
    "{{ (1).__class__.__bases__ }}",
    "{{ (1.0).hex() }}",
    "{{ [].sort() }}",
    "{{ [1].__iter__() }}",
    "{{ messages | pprint }}",
    "{{ messages | random }}",
    "{{ messages | groupby('role') }}",
    "{{ messages | batch(1) | list }}",
    "{{ 'x' | urlize }}",
    "{{ 'x' | xmlattr }}",
    "{{ 'x' is filter }}",
    "{{ 'x' is callable }}",
    "{{ gettext('x') }}",
    "{% trans %}x{% endtrans %}",
    "{% debug %}",
    "{{ debug() }}{{ exit() }}",
    "{{ caller() }}",
    "{{ varargs.x }}{{ kwargs.y }}",
    "{{ environment.loader }}{{ context.parent }}",
    "{% set x = ''.translate %}{{ x({}) }}",
    "{{ 'x'.center(100) }}",
    "{{ 'x'.ljust(10**3) }}",
    "{{ ' budget' | tojson }}{{ namespace(**{' budget': 1})[' budget'].max_chars }}",
]

BOMBS = [
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(1000000000) %}{% endfor %}",
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "{% for i in range(100000) %}{% for j in range(100000) if j == -1 %}{% endfor %}{% endfor %}",
    "{% for i in range(100000) %}{% set x = range(100000) | list %}{% endfor %}",
    "{% for i in range(100000) %}{% set x = range(100000) | map('string') | join %}{% endfor %}",
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * 1000000000 }}",
    "{{ 1000000000 * 'a' }}",
    "{{ [1] * 1000000000 }}",
    "{{ (1, 2) * 1000000000 }}",
    "{{ 2 ** 1000000000 }}",
    "{% set ns = namespace(x=2) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ ns.x | string }}",
    "{% set ns = namespace(x=['a']) %}{% for i in range(99) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = ns.x | replace('a', 'aa') %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}"
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = f(ns.x) %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = namespace(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x | upper }}",
    "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set new = namespace() %}"
    "{% set new.a = ns.x %}{% set new.b = ns.x %}{% set ns.x = new %}{% endfor %}{{ {}[ns.x].y }}",
    "{% set ns = namespace() %}{% set ns.x = [ns, ns] %}{{ ns.x }}",
    "{% set r = range(100000) | list %}{{ [" + "r | join, " * 3000 + "] }}",
    "{% set r = range(100000) | list %}{% set s = range(100000) | list %}"
    "{{ [" + "r == s, " * 3000 + "] | length }}",
    "{% set r = range(100000) | list %}{{ [" + "r[::-1] | length, " * 2000 + "] | length }}",
    "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
    "{% set x %}{% for i in range(100000) %}" + "y" * 60_000 + "{% endfor %}{% endset %}",
    "{% for i in range(100000) %}" + "y" * 1000 + "{% endfor %}",
    "{{ ('b' * 60000).replace('b', 'c' * 60000) }}",
    "{{ ('b' * 60000) | replace('b', 'c' * 60000) }}",
    "{{ ('c' * 60000).join(range(60000) | map('string')) }}",
    "{{ range(60000) | join('c' * 60000) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ 1 | round(1000000000, 'ceil') }}",
    "{{ messages | tojson(indent=1000000000) }}",
    "{{ 'a\nb' | indent(1000000000) }}",
    "{{ strftime_now('%1000000000Y') }}",
    "{{ " + "(" * 50_000 + ")" * 50_000 + " }}",
    "{{ " + "[" * 3000 + "]" * 3000 + " }}",
    "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "{{ " + "-" * 50_000 + "1 }}",
    "{{ 1" + " + 1" * 30_000 + " }}",
    "{{ 1 }}" * 18_000,
    "a" * 200_000,
]


def outcome(source: str) -> str | None:
    """The rendered text, None if the template was refused or stopped."""
    try:
        return ChatTemplate(source, {}).render(MESSAGES)
    except TemplateError:
        return None


@pytest.mark.parametrize("source", ESCAPES)
def test_no_template_reaches_what_is_not_allowed(source: str) -> None:
    shown = outcome(source)
    assert shown is None or not any(
        word in shown for word in ("<", "class", "object", "root:", "function", "module")
    ), shown
    assert MESSAGES == [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("source", BOMBS, ids=range(len(BOMBS)))
def test_every_bomb_is_stopped_in_seconds_and_little_memory(source: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.thread_time()
    assert outcome(source) is None
    # 0.25 are allowed, and parsing, and one operation that was under way; going off takes hours.
    assert time.thread_time() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_refusals_are_one_short_line() -> None:
    for source in (
        *BOMBS[:12],
        "{{ raise_exception('x' * 9000) }}",
        "{{ '" + "x" * 9000 + "' + 1 }}",
    ):
        with pytest.raises(TemplateError) as caught:
            ChatTemplate(source, {}).render(MESSAGES)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) <= 1000


def test_output_may_be_four_times_the_messages_and_64_ki() -> None:
    source = "{% for i in range(n) %}{{ messages[0].content }}{% endfor %}"
    messages = [{"role": "user", "content": "x" * 100_000}]
    assert len(ChatTemplate(source, {}).render(messages, n=4)) == 400_000
    with pytest.raises(TemplateError, match="a text of 500000 characters"):
        ChatTemplate(source, {}).render(messages, n=5)


def test_what_the_options_bound_holds_at_the_limit_and_one_beyond() -> None:
    limits = FrontLimits(template_items=20, template_output_chars=10)
    for at_limit, beyond, says in (
        ("{% for i in range(20) %}{% endfor %}", "{% for i in range(21) %}{% endfor %}", "items"),
        ("{{ ([1] * 19) | length }}", "{{ ([1] * 20) | length }}", "items"),
        ("a" * 90, "a" * 91, "output-chars"),  # the messages have 20 characters, keys and all
    ):
        ChatTemplate(at_limit, {}, limits=limits).render(MESSAGES)
        with pytest.raises(TemplateError, match=f"see --template-{says}"):
            ChatTemplate(beyond, {}, limits=limits).render(MESSAGES)


def test_a_template_has_so_many_seconds_as_the_option_says() -> None:
    source = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    for seconds in (0.01, 0.6):  # less and more than without the option
        template = ChatTemplate(source, {}, limits=FrontLimits(template_seconds=seconds))
        start = time.thread_time()
        with pytest.raises(TemplateError, match=f"more than {seconds} seconds .*template-seconds"):
            template.render(MESSAGES)
        assert seconds <= time.thread_time() - start < seconds + 2


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("\n{{ 'x' | attr('y') }}", "line 2 of the chat template uses the filter attr"),
        ("{% if x is callable %}{% endif %}", "uses the test callable: not supported"),
        ("{% include 'x' %}", "uses include: not supported"),
        ("a\n{% for %}", "line 2 of the chat template: Expected an expression"),
        ("{% unknown %}", "unknown tag 'unknown'"),
    ],
)
def test_what_a_template_may_not_use_is_named_when_it_is_loaded(source: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        ChatTemplate(source, {})


def test_failures_of_the_template_are_its_own() -> None:
    for source, reason in (
        ("{{ 'x' + 1 }}", "the chat template failed: TypeError"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("{{ messages[0].nothing.more }}", "has no attribute 'nothing'"),
        ("{{ unknown() }}", "'unknown' is undefined"),
        ("{{ raise_exception('because') }}", "^because$"),
    ):
        with pytest.raises(TemplateError, match=reason):
            ChatTemplate(source, {}).render(MESSAGES)
