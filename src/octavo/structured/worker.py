"""The process that tries grammars: `python -m octavo.structured.worker LIMITS`, started by
`structured.compiler`.

Reads frames from standard input and answers each on standard output, until the input ends. A
grammar that takes too long, too much memory or too much stack ends this process and no other.
"""

from __future__ import annotations

import resource
import signal
import sys
from typing import BinaryIO, Final

import msgspec
from llguidance import LLMatcher, LLTokenizer

from octavo.errors import InvalidRequest
from octavo.structured.byte_tokenizer import byte_tokenizer
from octavo.structured.frames import HEADER_BYTES, Answer, WorkerLimits, frame, frame_size
from octavo.structured.grammar_text import task_grammar
from octavo.structured.limits import parser_limits
from octavo.structured.task import GrammarTask
from octavo.structured.task_limits import check_depths

_EXTRA_SECONDS: Final = 1.0
"""The parent ends a worker that takes too long. One whose parent is gone ends itself."""


def write_frame(stream: BinaryIO, body: bytes) -> None:
    stream.write(frame(body))
    stream.flush()


def answer_to(task: GrammarTask, tokenizer: LLTokenizer, max_schema_depth: int) -> Answer:
    try:
        check_depths(task, max_schema_depth)
        grammar = task_grammar(task)
        _try(grammar, task.param, tokenizer)
    except InvalidRequest as error:
        return Answer(error=error.message, param=error.param or "")
    except Exception as error:  # the library's own, on input that nobody thought of
        return Answer(error=f"{_short(task.param)}: {error!s:.500}", param=task.param)
    return Answer(grammar)


def _short(param: str) -> str:
    return param.rpartition(".")[2]


def _try(grammar: str, param: str, tokenizer: LLTokenizer) -> None:
    """Its first mask is the first proof that something can be written at all. What it forces at its
    beginning is written: a long text of one form breaks its limits there."""
    matcher = LLMatcher(tokenizer, grammar, log_level=0, limits=parser_limits())
    if not matcher.is_error():
        matcher.compute_bitmask()
    if not matcher.is_error():
        matcher.consume_tokens(matcher.compute_ff_tokens())
    if matcher.is_error():
        raise InvalidRequest(
            f"{_short(param)}: no text is of this form "
            f"({matcher.get_error().partition(chr(10))[0]:.200})",
            param=param,
        )


def _limit_memory(num_bytes: int) -> None:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - no file of the user's
        num_pages = int(file.read().split()[0])
    size = num_pages * resource.getpagesize() + num_bytes
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve(source: BinaryIO, sink: BinaryIO, limits: WorkerLimits) -> None:
    tokenizer = byte_tokenizer()
    decoder = msgspec.msgpack.Decoder(GrammarTask)
    _limit_memory(limits.memory_bytes)
    write_frame(sink, b"")
    while header := source.read(HEADER_BYTES):
        body = source.read(frame_size(header))
        signal.setitimer(signal.ITIMER_REAL, limits.seconds + _EXTRA_SECONDS)
        answer = answer_to(decoder.decode(body), tokenizer, limits.max_schema_depth)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write_frame(sink, msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    given = msgspec.json.decode(sys.argv[1], type=WorkerLimits)
    serve(sys.stdin.buffer, sys.stdout.buffer, given)
