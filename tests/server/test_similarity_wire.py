"""/score and /rerank: vLLM's, Jina's and Cohere's shapes around the cosines of embeddings."""

from __future__ import annotations

import numpy as np
import pytest

from octavo.config.server import ServerConfig
from tests.server.harness import CONTEXT, Json, Server, Setup, error_of, run

SCORE_PATHS = ("/score", "/v1/score")
RERANK_PATHS = ("/rerank", "/v1/rerank", "/v2/rerank")
DOCUMENTS = ["ab", "query", "b", "ab"]


async def ask(server: Server, path: str, **fields: Json) -> Json:
    response = await server.post(path, fields)
    assert response.status_code == 200, response.text
    return response.json()


async def cosine(server: Server, left: str, right: str) -> float:
    """By /v1/embeddings."""
    body = await ask(server, "/v1/embeddings", input=[left, right])
    one, other = (np.array(item["embedding"]) for item in body["data"])
    return float(one @ other)


@pytest.mark.parametrize("path", SCORE_PATHS)
def test_a_score_has_vllms_shape(path: str) -> None:
    async def scenario(server: Server) -> None:
        body = await ask(server, path, model="fake", text_1="ab", text_2="c")
        assert body.keys() == {"id", "object", "created", "model", "data", "usage"}
        assert (body["object"], body["model"]) == ("list", "fake")
        (one,) = body["data"]
        assert one.keys() == {"index", "object", "score"}
        assert (one["index"], one["object"]) == (0, "score")
        assert one["score"] == pytest.approx(await cosine(server, "ab", "c"), abs=1e-6)
        assert body["usage"] == {"prompt_tokens": 5, "total_tokens": 5}

    run(scenario)


@pytest.mark.parametrize(
    "names", [("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents")]
)
def test_one_text_with_each_or_two_lists_in_step(names: tuple[str, str]) -> None:
    async def scenario(server: Server) -> None:
        def scores(body: Json) -> list[float]:
            return [one["score"] for one in body["data"]]

        left, right = names
        with_each = scores(await ask(server, "/score", **{left: "ab", right: ["ab", "c"]}))
        assert with_each[0] == pytest.approx(1, abs=1e-6)
        assert with_each[1] == pytest.approx(await cosine(server, "ab", "c"), abs=1e-6)
        in_step = scores(await ask(server, "/score", **{left: ["ab", "d"], right: ["c", "d"]}))
        assert in_step[0] == with_each[1]
        assert in_step[1] == pytest.approx(1, abs=1e-6)

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "text_1"),
        ({"text_1": "a"}, "text_1"),
        ({"text_1": "a", "documents": ["b"]}, "text_1"),
        ({"text_1": "a", "text_2": "b", "data_1": "a", "data_2": "b"}, "text_1"),
        ({"text_1": ["a", "b"], "text_2": "c"}, "text_1"),
        ({"text_1": "a", "text_2": []}, "text_2"),
        ({"text_1": "a", "text_2": ["x" * 2 * CONTEXT]}, "text_2"),
        ({"text_1": "a", "text_2": [1]}, "text_2"),
        ({"queries": "a", "documents": "b", "use_activation": True}, "use_activation"),
    ],
)
def test_a_score_of_nothing_sensible_is_refused(fields: Json, param: str) -> None:
    async def scenario(server: Server) -> None:
        assert error_of(await server.post("/score", fields))["param"] == param

    run(scenario)


@pytest.mark.parametrize("path", RERANK_PATHS)
def test_documents_come_best_first(path: str) -> None:
    async def scenario(server: Server) -> None:
        body = await ask(server, path, model="fake", query="query", documents=DOCUMENTS)
        assert body.keys() == {"id", "model", "usage", "results"}
        results = body["results"]
        assert all(one.keys() == {"index", "document", "relevance_score"} for one in results)
        scores = [one["relevance_score"] for one in results]
        assert scores == sorted(scores, reverse=True)
        assert results[0]["index"] == 1
        assert scores[0] == pytest.approx(1, abs=1e-6)
        assert sorted(one["index"] for one in results) == [0, 1, 2, 3]
        order = [one["index"] for one in results]
        assert order.index(0) < order.index(3), "equal ones keep their order"
        for one in results:
            assert one["document"] == {"text": DOCUMENTS[one["index"]]}
            wanted = await cosine(server, "query", DOCUMENTS[one["index"]])
            assert one["relevance_score"] == pytest.approx(wanted, abs=1e-6)
        num_tokens = sum(len(text) + 1 for text in ["query", *DOCUMENTS])
        assert body["usage"] == {"prompt_tokens": num_tokens, "total_tokens": num_tokens}

    run(scenario)


def test_the_best_few_without_their_texts() -> None:
    async def scenario(server: Server) -> None:
        documents = [{"text": text} for text in DOCUMENTS]
        fields = {"query": "query", "documents": documents, "top_n": 2, "return_documents": False}
        results = (await ask(server, "/rerank", **fields))["results"]
        assert len(results) == 2
        assert results[0].keys() == {"index", "relevance_score"}
        assert results[0]["index"] == 1
        more = await ask(server, "/rerank", query="query", documents=DOCUMENTS, top_n=9)
        assert len(more["results"]) == 4

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"documents": ["a"]}, "query"),
        ({"query": "a", "documents": []}, "documents"),
        ({"query": "a", "documents": "a"}, "documents"),
        ({"query": "a", "documents": [{"title": "a"}]}, "documents"),
        ({"query": "x" * 2 * CONTEXT, "documents": ["a"]}, "query"),
        ({"query": "a", "documents": ["a"], "top_n": -1}, "top_n"),
        ({"query": "a", "documents": ["a"], "max_tokens_per_doc": 4}, "max_tokens_per_doc"),
    ],
)
def test_a_ranking_of_nothing_sensible_is_refused(fields: Json, param: str) -> None:
    async def scenario(server: Server) -> None:
        assert error_of(await server.post("/rerank", fields))["param"] == param

    run(scenario)


def test_the_query_counts_among_the_texts() -> None:
    async def scenario(server: Server) -> None:
        await ask(server, "/rerank", query="a", documents=["b"] * 3)
        error = error_of(await server.post("/rerank", {"query": "a", "documents": ["b"] * 4}))
        assert "5 texts; at most 4" in error["message"]

    run(scenario, Setup(options=ServerConfig(max_inputs_per_request=4)))
