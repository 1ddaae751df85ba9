"""The routes around generation: models, tokens, health, metrics."""
