"""`octavo run-batch`: a file of requests in OpenAI's batch format, answered without a server.

A line that cannot be honoured gets a record that says why; the others go on.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import BinaryIO

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.engine.child import ChildEngine
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.entrypoints.cli.loading import engine_config
from octavo.entrypoints.openai.batches.file_run import DoneLines, answer_file, keep_answers
from octavo.entrypoints.openai.batches.line_call import LineCaller
from octavo.entrypoints.openai.batches.lines import LineRecord, add_usage
from octavo.entrypoints.openai.batches.objects import BatchUsage
from octavo.entrypoints.openai.served_app import ServedApp
from octavo.entrypoints.progress import BatchBar, note
from octavo.errors import ConfigError, EngineDead

NO_RESERVE = 1 << 20
"""Sequences at the same time: there is nobody else to leave slots for; admission has its bounds."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i",
        "--input-file",
        type=Path,
        required=True,
        metavar="FILE",
        help='JSON lines: {"custom_id": text, "method": "POST", "url": "/v1/chat/completions",'
        ' "body": {...}}',
    )
    parser.add_argument(
        "-o",
        "--output-file",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON lines, one for each, in the order in which they are done",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the answers that are in the output file, and ask again for the others",
    )
    parser.add_argument(
        "--served-model-name",
        action="append",
        default=[],
        metavar="NAME",
        help="the model's name in the lines; may be given several times (default: as --model)",
    )
    add_config_file(parser)
    add_options(parser, EngineConfig, "engine")
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    values = read_options(namespace, EngineConfig)
    names = tuple(namespace.served_model_name) or (str(values[EngineConfig].get("model", "")),)
    output: Path = namespace.output_file
    if not namespace.resume and output.exists() and output.stat().st_size:
        raise ConfigError(f"{output} is not empty; --resume goes on with it, or remove it")
    with namespace.input_file.open("rb") as lines:
        num_lines = sum(1 for line in lines if line.strip())
        lines.seek(0)
        config = engine_config(values[EngineConfig])
        done = keep_answers(output) if namespace.resume else DoneLines()
        options = ServerConfig(served_model_name=names, batch_num_seqs=NO_RESERVE)
        with output.open("ab") as out, BatchBar(num_lines, is_shown=True) as bar:
            bar.add(num_tokens=0, num_prompts=len(done))
            tally = Tally(bar)
            asyncio.run(_answer(config, options, lines, out, done, tally))
    kept = f", {len(done)} kept" if done else ""
    note(f"{num_lines} lines{kept}, {tally.num_failed} failed")
    return 1 if tally.num_failed else 0


class Tally:
    """Hears of each record."""

    def __init__(self, bar: BatchBar) -> None:
        self.num_failed = 0
        self._bar = bar

    def count(self, record: LineRecord) -> None:
        usage = BatchUsage()
        if record.is_ok and record.response is not None:
            add_usage(usage, record.response.body)
        self.num_failed += not record.is_ok
        self._bar.add(num_tokens=usage.output_tokens, num_prompts=1)


async def _answer(
    config: EngineConfig,
    options: ServerConfig,
    lines: BinaryIO,
    out: BinaryIO,
    done: DoneLines,
    tally: Tally,
) -> None:
    """Raises as loading an engine does, or `EngineDead` when it is gone for good."""
    client = ChildEngine(config)
    starting = asyncio.create_task(client.start())
    try:
        caller = LineCaller(ServedApp(client, config, options).app)
        await starting
        answering = asyncio.create_task(
            answer_file(lines, out, caller, options.max_body_bytes, done, tally.count)
        )
        gone = asyncio.create_task(client.wait_gone())
        await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not answering.done():
            answering.cancel()
            raise EngineDead("the engine died and does not come back; --resume keeps what is done")
        await answering
    finally:
        starting.cancel()
        await client.shutdown()
