"""The OpenAI-compatible server. Here: what puts its rooms together and runs them."""
