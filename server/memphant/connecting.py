"""How to connect: what a server prints when it is ready."""

import os
import shutil
import sys
from pathlib import Path

from memphant.services import Services


def banner(services: Services, port: int) -> str:
    """Where the data lies, how to connect a client, how to open psql."""
    settings = services.settings
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    url = f"http://{host}:{port}/mcp"
    if services.database.running is not None:
        data = str(services.database.running.data_dir)
    else:
        data = "the database of MEMPHANT_DATABASE_URL"
    if services.tokens_required:
        who = f"bearers of a token ({_command()} token create --user USER --agent AGENT)"
        claude = ' --header "Authorization: Bearer TOKEN"'
        codex = " --bearer-token-env-var MEMPHANT_TOKEN"
        code = ', "headers": {"Authorization": "Bearer TOKEN"}'
        client = "  (pass an httpx2 client with the header: see README.md)"
    else:
        who = f"everybody on this machine, as user {settings.user}, agent {settings.agent}"
        claude = codex = code = client = ""
    vscode = f'{{"servers": {{"memphant": {{"type": "http", "url": "{url}"{code}}}}}}}'
    return f"""
memphant is ready at {url}
  data         {data}
  model        {services.embedder.name}
  serves       {who}
  Claude Code  claude mcp add --transport http memphant {url}{claude}
  Codex        codex mcp add memphant --url {url}{codex}
  VS Code      .vscode/mcp.json: {vscode}
  Python       async with mcp.Client("{url}") as client: await client.list_tools(){client}
  psql         {_command()} psql
Ctrl-C stops it.
"""


def _command() -> str:
    """How this memphant is called from the current folder."""
    if shutil.which("memphant"):
        return "memphant"
    return os.path.relpath(Path(sys.executable).parent / "memphant")
