"""One model, served: tokenizer and template, metrics, application, HTTP server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.config.tenants import load_tenants
from octavo.core.page_plan import plan_pages
from octavo.engine.client import EngineClient
from octavo.engine.front import Front, load_front
from octavo.entrypoints.openai.app import build_app
from octavo.entrypoints.openai.batches.line_call import LineCaller
from octavo.entrypoints.openai.batches.service import BatchService
from octavo.entrypoints.openai.http_server import DrainingServer
from octavo.entrypoints.openai.intake.context import ModelInfo
from octavo.kernels._native import trim_memory
from octavo.metrics.engine_metrics import EngineMetrics
from octavo.parsing.registry import Dialects, dialects_of
from octavo.scheduler.admission.queue_order import queue_order
from octavo.scheduler.policies.registry import POLICIES

EXIT_ENGINE_GONE = 1
"""Exit status after the engine died for good."""


class ServedApp:
    """Loads the front (tokenizer, template) and builds the application; `run` serves it."""

    def __init__(self, client: EngineClient, config: EngineConfig, options: ServerConfig) -> None:
        tenants = load_tenants(options)
        front = load_front(config)
        resolved = front.resolved.config
        max_model_len = front.inputs.max_model_len
        self._options = options
        self._client = client
        self.has_keys = bool(options.api_key or tenants.keys)
        self.metrics = EngineMetrics(
            options.served_model_name[0],
            max_model_len,
            _page_facts(front),
            shares_process=not options.engine_process,
            policy=resolved.scheduling_policy,
            tenants=tenants.named,
        )
        model = ModelInfo(
            names=options.served_model_name,
            max_model_len=max_model_len,
            max_num_seqs=resolved.max_num_seqs,
            created=int(time.time()),
            config=resolved,
            takes_priority=_takes_priority(resolved),
            dialects=_dialects(front, options),
        )
        self._batches = BatchService(options, tenants) if options.batch_dir else None
        order = queue_order(resolved)
        self.app = build_app(
            client, front.inputs, model, options, self.metrics, tenants, order, self._batches
        )
        trim_memory()  # what it took to read the vocabulary

    async def run(self, listener: socket.socket, on_ready: Callable[[], None]) -> int:
        """Serve until a signal or the engine's end. Returns the exit status."""
        server = DrainingServer(self.app, self._options, on_ready)
        if self._batches is not None:
            self._batches.start(LineCaller(self.app))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        gone = asyncio.create_task(self._client.wait_gone())
        await asyncio.wait({serving, gone}, return_when=asyncio.FIRST_COMPLETED)
        engine_is_gone = gone.done()
        gone.cancel()
        server.should_exit = True
        await serving
        if self._batches is not None:
            await self._batches.close()
        return EXIT_ENGINE_GONE if engine_is_gone else 0


def _dialects(front: Front, options: ServerConfig) -> Dialects:
    """Raises `ConfigError` for a name that there is not."""
    return dialects_of(
        "" if front.template is None else front.template.source,
        front.model.architecture,
        tools=options.tool_call_parser,
        reasoning=options.reasoning_parser,
    )


def _takes_priority(config: EngineConfig) -> bool:
    """Whether a request's priority changes anything. Policies from outside may use it."""
    policy = config.scheduling_policy
    return policy == "priority" or policy not in POLICIES or config.reserve_high_priority > 0


def _page_facts(front: Front) -> dict[str, str]:
    """Under the names of vLLM's label set, as far as they have a meaning here; and which windows
    the groups of layers have that pages are of."""
    config = front.resolved.config
    assert config.max_model_len is not None
    plan = plan_pages(
        front.model, config.kv_cache_dtype, config.max_model_len, config.max_num_batched_tokens
    )
    return {
        "block_size": str(config.block_size),
        "cache_dtype": config.kv_cache_dtype,
        "enable_prefix_caching": str(config.enable_prefix_caching),
        "page_windows": ",".join(map(str, plan.groups.windows)),
    }
