"""Random requests with all parameters that change an answer, for a server whose model is likely to
follow one of some scripts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from tests.server.harness import Json

TEMPLATE: Final = (
    "{% for tool in tools or [] %}{{ tool.function.name }};{% endfor %}"
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% if enable_thinking %}<think>\n{% endif %}"
    "{% endif %}"
    "{# <tool_call> <think> </think> #}{% if false %}</think>{% endif %}"
)
CALL: Final = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
SCRIPTS: Final = (
    "abc DEFGHIJ klm \N{GRINNING FACE} 漢字 é end",
    "Let me see. " + CALL % ("look", '{"at": "a"}') + "\n" + CALL % ("wait", "{}"),
    CALL % ("nobody", '{"x": 1}') + CALL % ("look", '{"at": "b"}') + " done",
    "<think>\nHm, a <tool_call>? \N{GRINNING FACE}\n</think>\n\nabc abc abc abc abc abc",
    "Why.</think>\n" + CALL % ("look", '{"at": "\N{GRINNING FACE}"}') + CALL % ("look", "{"),
    "\ufffd\x00\r\n\t </s> <s> <tool_call",
)
TOOLS: Final[Json] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "parameters": {
                "type": "object",
                "properties": {"at": {"enum": ["a", "b"]}},
                "required": ["at"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "wait", "parameters": {"type": "object"}}},
]
Draw = Callable[[random.Random], Json]
ALWAYS: Final[Mapping[str, Draw]] = {
    "seed": lambda rng: rng.randrange(2**63),
    "max_tokens": lambda rng: rng.choice([1, 8, 30, 150, 150, 200]),
    "temperature": lambda rng: rng.choice([0, 0, 0.3, 0.7, 1, 1.5]),
}
SOMETIMES: Final[Mapping[str, Draw]] = {
    "n": lambda rng: rng.randint(1, 3),
    "top_p": lambda rng: rng.choice([0.3, 0.9, 1]),
    "top_k": lambda rng: rng.choice([-1, 0, 1, 5]),
    "min_p": lambda rng: rng.choice([0, 0.1]),
    "typical_p": lambda rng: rng.choice([0.5, 1]),
    "top_n_sigma": lambda rng: rng.choice([-1, 1, 3]),
    "presence_penalty": lambda rng: rng.uniform(-2, 2),
    "frequency_penalty": lambda rng: rng.uniform(-2, 2),
    "repetition_penalty": lambda rng: rng.uniform(0.8, 1.5),
    "logit_bias": lambda rng: {str(rng.randrange(258)): rng.uniform(-100, 20) for _ in range(3)},
    "xtc_probability": lambda rng: rng.random(),
    "xtc_threshold": lambda rng: rng.choice([0.05, 0.3]),
    "dynatemp_range": lambda rng: rng.choice([0, 0.5]),
    "dynatemp_exponent": lambda rng: rng.choice([0.5, 1]),
    "mirostat": lambda rng: rng.choice([0, 2]),
    "mirostat_tau": lambda rng: rng.uniform(1, 6),
    "mirostat_eta": lambda rng: rng.uniform(0.05, 0.5),
    "dry_multiplier": lambda rng: rng.choice([0, 0.8]),
    "dry_base": lambda rng: rng.uniform(1.2, 2),
    "dry_allowed_length": lambda rng: rng.randint(1, 3),
    "dry_penalty_last_n": lambda rng: rng.choice([-1, 0, 10]),
    "dry_sequence_breakers": lambda rng: rng.choice([["\n"], ["a", ":"]]),
    "allowed_token_ids": lambda rng: [*rng.sample(range(256), 100), 257],
    "bad_words": lambda rng: rng.choice([["abc"], ["DEF", " k"], ["e"]]),
    "stop": lambda rng: rng.choice(["DEFGHIJ", ["abc", "\N{GRINNING FACE}"], ["字", "</tool"], []]),
    "stop_regex": lambda rng: rng.choice(["[A-F]+ ?", ["é|漢.", "(?i)LOOK"], "\\w[^\\w]{2}"]),
    "stop_token_ids": lambda rng: rng.choice([[], [101], [10, 32]]),
    "include_stop_str_in_output": lambda rng: rng.random() < 0.5,
    "ignore_eos": lambda rng: rng.random() < 0.5,
    "min_tokens": lambda rng: rng.choice([0, 1]),
    "repetition_detection": lambda _: {"max_pattern_size": 4, "min_count": 3},
    "skip_special_tokens": lambda rng: rng.random() < 0.5,
    "spaces_between_special_tokens": lambda rng: rng.random() < 0.5,
    "return_token_ids": lambda rng: rng.random() < 0.7,
    "return_tokens_as_token_ids": lambda rng: rng.random() < 0.5,
    "stream_interval": lambda rng: rng.randint(1, 7),
    "truncate_prompt_tokens": lambda rng: rng.choice([40, -1]),
    "echo": lambda rng: rng.random() < 0.5,
    "timeout": lambda _: 100,
}
FORMS: Final[tuple[Json, ...]] = (
    {"structured_outputs": {"regex": "[a-e]{3,12}( [a-e]+)?"}},
    {"structured_outputs": {"choice": ["abc", "abd", "\N{GRINNING FACE}"]}},
    {"structured_outputs": {"json": {"type": "array", "items": {"enum": ["a", "b"]}}}},
    {"structured_outputs": {"grammar": 'root ::= "a" root | "b"'}},
    {"response_format": {"type": "json_object"}},
    {
        "guided_json": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
        }
    },
)
CHAT_CHOICES: Final[tuple[Json, ...]] = (
    {"tool_choice": "auto"},
    {"tool_choice": "required"},
    {"tool_choice": "none"},
    {"tool_choice": {"type": "function", "function": {"name": "look"}}},
    {"parallel_tool_calls": False},
)


def random_request(seed: int) -> tuple[str, Json]:
    """A path, and a body that is right."""
    rng = random.Random(seed)
    body = {name: draw(rng) for name, draw in ALWAYS.items()}
    body |= {name: draw(rng) for name, draw in SOMETIMES.items() if rng.random() < 0.08}
    if body.get("dynatemp_range"):
        body["temperature"] = body["temperature"] or 0.7
    body["min_tokens"] = min(body.get("min_tokens", 0), body["max_tokens"])
    if rng.random() < 0.2:
        body |= rng.choice(FORMS)
    question = f"#{rng.randrange(len(SCRIPTS))}#"
    if rng.random() < 0.5:
        return "/v1/completions", body | _completion(rng, question)
    return "/v1/chat/completions", body | _chat(rng, question)


def _completion(rng: random.Random, question: str) -> Json:
    prompts = [f"{question}{number}[assistant]" for number in range(rng.choice([1, 1, 2]))]
    fields = {"prompt": prompts if len(prompts) > 1 else prompts[0]}
    return fields | ({"logprobs": rng.randint(0, 3)} if rng.random() < 0.4 else {})


def _chat(rng: random.Random, question: str) -> Json:
    fields: Json = {"messages": [{"role": "user", "content": question}]}
    if rng.random() < 0.4:
        fields |= {"logprobs": True, "top_logprobs": rng.randint(0, 3)}
    if rng.random() < 0.8:
        fields |= {"tools": TOOLS} | rng.choice(CHAT_CHOICES)
    if rng.random() < 0.3:
        fields["chat_template_kwargs"] = {"enable_thinking": True}
    if rng.random() < 0.2:
        fields["include_reasoning"] = False
    return fields
