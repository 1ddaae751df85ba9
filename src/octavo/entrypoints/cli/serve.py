"""`octavo serve`: options in, the HTTP server out, which lives in `entrypoints.openai`."""

from __future__ import annotations

import argparse
from dataclasses import replace

from octavo.config.engine import EngineConfig
from octavo.config.server import ServerConfig
from octavo.entrypoints.cli.flags import add_config_file, add_options, read_options
from octavo.entrypoints.cli.loading import add_model, engine_config
from octavo.entrypoints.openai.serve import run_server


def configure(parser: argparse.ArgumentParser) -> None:
    add_model(parser, is_required=False)
    add_config_file(parser)
    add_options(parser, ServerConfig, "server")
    add_options(parser, EngineConfig, "engine", without=("model",))
    parser.set_defaults(execute=execute)


def execute(namespace: argparse.Namespace) -> int:
    values = read_options(namespace, EngineConfig, ServerConfig)
    server = ServerConfig(**values[ServerConfig])  # type: ignore[arg-type]
    engine = engine_config(values[EngineConfig])
    if not server.served_model_name:
        # The name that the user gave, not the place where its file was found.
        server = replace(server, served_model_name=(str(values[EngineConfig]["model"]),))
    return run_server(engine, server)
