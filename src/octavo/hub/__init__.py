"""From a model's name to a file on this machine: catalogue, cache and download.

Knows nothing of what is inside a model file.
"""
