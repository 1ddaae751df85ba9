"""`python -m octavo` is the `octavo` command."""

from __future__ import annotations

from octavo.entrypoints.cli.main import main

if __name__ == "__main__":
    main()
