"""Anthropic's messages: a chat in other words. Stands on the rooms of `openai`."""
