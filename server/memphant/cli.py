"""The command line. Imports what a command needs only when it runs."""

import argparse
import asyncio
import logging
import os
import sys
from typing import TYPE_CHECKING

from memphant import __version__

if TYPE_CHECKING:
    from memphant.settings import Settings


def main(argv: list[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    arguments = _parser().parse_args(argv)

    from pydantic import ValidationError

    from memphant import logs
    from memphant.errors import MemphantError
    from memphant.settings import Settings

    quiet = arguments.command != "serve"
    logs.configure(logging.WARNING if quiet else logging.INFO)
    try:
        settings = Settings()
        return int(arguments.run(settings, arguments) or 0)
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            name = "_".join(str(part) for part in problem["loc"]).upper()
            print(f"memphant: MEMPHANT_{name}: {problem['msg']}", file=sys.stderr)
        return 2
    except MemphantError as error:
        print(f"memphant: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memphant", description="Long-term memory for AI agents, in Postgres, over MCP."
    )
    parser.add_argument("--version", action="version", version=f"memphant {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="serve MCP over HTTP, or over stdio")
    serve.add_argument("--stdio", action="store_true", help="one client over stdin and stdout")
    serve.set_defaults(run=_serve)

    install = commands.add_parser("install", help="install or upgrade the schema of a database")
    install.add_argument("--plan", action="store_true", help="print the SQL instead of running it")
    install.add_argument(
        "--partitions", type=int, default=16, help="hash partitions, at the first install only"
    )
    install.set_defaults(run=_install)

    token = commands.add_parser("token", help="create, list and revoke bearer tokens")
    actions = token.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a token; it is shown once")
    create.add_argument("--user", required=True)
    create.add_argument("--agent", required=True)
    create.add_argument(
        "--share-by-default",
        action="store_true",
        help="the user's other agents may read what this one saves, unless it says otherwise",
    )
    create.set_defaults(run=_token_create)
    listing = actions.add_parser("list", help="show the tokens, without their secrets")
    listing.set_defaults(run=_token_list)
    revoke = actions.add_parser("revoke", help="end a token at once")
    revoke.add_argument("token_id")
    revoke.set_defaults(run=_token_revoke)

    adopt = commands.add_parser("adopt", help="hand what one user holds to another")
    adopt.add_argument("--to", required=True, metavar="USER", help="the user who takes it over")
    adopt.add_argument(
        "--from", dest="from_user", metavar="USER", help="default: the user of local mode"
    )
    adopt.set_defaults(run=_adopt)

    psql = commands.add_parser("psql", help="open psql, by default to read every memory")
    psql.add_argument(
        "--as",
        dest="role",
        choices=["dba", "server", "owner"],
        default="dba",
        help="dba reads everything (default), server saves and forgets, owner changes settings",
    )
    psql.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to psql")
    psql.set_defaults(run=_psql)

    search = commands.add_parser("search", help="search from the shell")
    search.add_argument("query")
    search.add_argument("--user", help="default: the user of local mode")
    search.add_argument("--agent", help="default: the agent of local mode")
    search.add_argument("--limit", type=int, default=10)
    search.set_defaults(run=_search)

    doctor = commands.add_parser("doctor", help="say what is wrong, and what to do about it")
    doctor.add_argument("--url", help="examine the server at this URL, as a client would")
    doctor.add_argument("--token", help="the client's bearer token; default: MEMPHANT_TOKEN")
    doctor.set_defaults(run=_doctor)

    rebuild = commands.add_parser(
        "rebuild-index", help="build the vector index anew while saves and searches go on"
    )
    rebuild.set_defaults(run=_rebuild_index)

    demo = commands.add_parser("demo", help="save and search a short conversation, with scores")
    demo.set_defaults(run=_demo)
    return parser


def _serve(settings: "Settings", arguments: argparse.Namespace) -> None:
    from memphant import server

    asyncio.run(server.serve_stdio(settings) if arguments.stdio else server.serve_http(settings))


def _install(settings: "Settings", arguments: argparse.Namespace) -> None:
    from memphant import commands

    commands.install(settings, plan=arguments.plan, partitions=arguments.partitions)


def _token_create(settings: "Settings", arguments: argparse.Namespace) -> None:
    from memphant import commands

    commands.token_create(
        settings, arguments.user, arguments.agent, share_by_default=arguments.share_by_default
    )


def _token_list(settings: "Settings", _: argparse.Namespace) -> None:
    from memphant import commands

    commands.token_list(settings)


def _token_revoke(settings: "Settings", arguments: argparse.Namespace) -> None:
    from memphant import commands

    commands.token_revoke(settings, arguments.token_id)


def _adopt(settings: "Settings", arguments: argparse.Namespace) -> None:
    from memphant import commands

    commands.adopt(settings, arguments.from_user or settings.user, arguments.to)


def _psql(settings: "Settings", arguments: argparse.Namespace) -> int:
    from memphant import commands

    return commands.psql(settings, arguments.role, arguments.arguments)


def _search(settings: "Settings", arguments: argparse.Namespace) -> None:
    from memphant import commands

    asyncio.run(
        commands.search(
            settings,
            arguments.query,
            user=arguments.user or settings.user,
            agent=arguments.agent or settings.agent,
            limit=arguments.limit,
        )
    )


def _doctor(settings: "Settings", arguments: argparse.Namespace) -> int:
    from memphant import doctor

    # an argument can be read by everybody on the machine, a variable cannot
    token = arguments.token or os.environ.get("MEMPHANT_TOKEN")
    return doctor.run(settings, arguments.url, token)


def _rebuild_index(settings: "Settings", _: argparse.Namespace) -> None:
    from memphant import rebuild

    rebuild.run(settings)


def _demo(settings: "Settings", _: argparse.Namespace) -> None:
    from memphant import demo

    asyncio.run(demo.run(settings))


if __name__ == "__main__":
    sys.exit(main())
