"""Plain data that the layers exchange. Imports nothing of octavo but `errors`."""
