"""OpenAI's responses: a chat in other words, stored."""
