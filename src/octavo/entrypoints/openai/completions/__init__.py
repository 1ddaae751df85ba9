"""Completions: a text goes on."""
