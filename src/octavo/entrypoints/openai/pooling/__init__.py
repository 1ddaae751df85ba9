"""Texts that become vectors: embeddings, score, rerank."""
