"""L10: the same answer alone or in any crowd, through the whole server."""

from __future__ import annotations

import asyncio

import pytest

from octavo.config.server import ServerConfig
from tests.server.harness import Server, Setup, run

NUM_PROMPTS = 64
PROMPTS = [f"prompt number {i} " * (1 + i % 5) for i in range(NUM_PROMPTS)]


@pytest.mark.parametrize("num_pages", [1024, 80], ids=["roomy", "preempting"])
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 1, "seed": 7}])
def test_l10_sixty_four_prompts_alone_and_all_at_once(
    num_pages: int, sampling: dict[str, float]
) -> None:
    async def scenario(server: Server) -> None:
        async def text(prompt: str) -> str:
            response = await server.complete(prompt, max_tokens=24, **sampling)
            assert response.status_code == 200, response.text
            return str(response.json()["choices"][0]["text"])

        alone = [await text(prompt) for prompt in PROMPTS]
        for num_crowds in (1, 2):
            server.brake.close()
            crowd = asyncio.gather(*map(text, PROMPTS))
            await _submitted(server, NUM_PROMPTS * (1 + num_crowds))
            server.brake.open()
            assert await crowd == alone
        assert bool(server.client.stats().num_preemptions) == (num_pages == 80)

    options = ServerConfig(max_num_queued_reqs=NUM_PROMPTS)
    run(scenario, Setup(num_pages=num_pages, options=options))


async def _submitted(server: Server, num_requests: int) -> None:
    """Wait until so many requests have reached the engine since it was started."""
    wanted = f'vllm:request_params_n_count{{engine="0",model_name="fake"}} {num_requests:.1f}'
    while wanted not in server.metrics.text().decode():
        await asyncio.sleep(0.01)
