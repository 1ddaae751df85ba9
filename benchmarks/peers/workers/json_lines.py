"""The worker's end of `benchmarks/peers/worker.py`: answers lines of JSON. Standard library only.

It runs in the Python of each peer, where nothing else may be installed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from collections.abc import Callable, Mapping

LEAST_ID, MOST_ID = 1000, 30000
"""Token ids that every vocabulary has, above the control tokens."""


def answer_requests(handlers: Mapping[str, Callable[..., object]]) -> None:
    """Call the handler named by each line's "do" until the input ends."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what a library prints must not be taken for an answer
        for line in sys.stdin:
            request = json.loads(line)
            answers.write(json.dumps(_answer(handlers[request.pop("do")], request)) + "\n")
            answers.flush()


def random_ids(num_sequences: int, length: int) -> list[list[int]]:
    """New ones with each call, so that no prefix cache knows them."""
    return [
        [random.randrange(LEAST_ID, MOST_ID) for _ in range(length)] for _ in range(num_sequences)
    ]


def _answer(handler: Callable[..., object], arguments: dict[str, object]) -> dict[str, object]:
    try:
        return {"result": handler(**arguments)}
    except Exception:  # whatever it is, the driver must hear of it
        return {"error": traceback.format_exc()}
