"""What the commands do, besides serving."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg

from memphant import auth, database, embedded, schema
from memphant.embedding import EmbeddingError, build_embedder
from memphant.errors import MemphantError
from memphant.services import Services
from memphant.settings import Settings
from memphant.store import Principal


@contextmanager
def _database(settings: Settings) -> Iterator[database.Database]:
    opened = database.open_database(settings)
    try:
        yield opened
    finally:
        opened.stop()


@contextmanager
def _owner(settings: Settings) -> Iterator[psycopg.Connection]:
    with _database(settings) as opened, database.connect(opened.owner) as connection:
        if opened.running is not None and not schema.applied_migrations(connection):
            _install_embedded(settings, opened)
        schema.check(connection)
        yield connection


def _install_embedded(settings: Settings, opened: database.Database) -> None:
    database.install(opened, *_model(settings))


def _model(settings: Settings) -> tuple[str, int]:
    embedder = build_embedder(settings.embedding())
    probe = getattr(embedder, "probe", None)
    if probe is not None and settings.embedding_dimensions is None:
        try:
            asyncio.run(probe())
        except EmbeddingError as error:
            raise MemphantError(
                f"The embedding endpoint does not answer: {error.reason}",
                "Set MEMPHANT_EMBEDDING_DIMENSIONS to install without asking it.",
            ) from error
    return embedder.name, embedder.dimensions


def install(settings: Settings, *, plan: bool, partitions: int) -> None:
    """Installs or upgrades the schema, or prints the SQL that would do it."""
    model, dimensions = _model(settings)
    with _database(settings) as opened:
        if plan:
            with database.connect(opened.owner) as connection:
                applied = schema.applied_migrations(connection)
            options = schema.InstallOptions(model, dimensions, partitions=partitions)
            print(schema.plan(applied, options))
            return
        ran = database.install(opened, model, dimensions, partitions)
    print(f"Ran {', '.join(ran)}." if ran else "The tables were there.", end=" ")
    print(f"Functions, policies and grants are current. Model: {model}, {dimensions} dimensions.")


def token_create(settings: Settings, user: str, agent: str, *, share_by_default: bool) -> None:
    """Makes a token and shows it once."""
    token = auth.new_token()
    with _owner(settings) as connection:
        first = not _scalar(connection, "select memory.tokens_required()")
        token_id = _scalar(
            connection,
            """select memory.create_token(
                user_id => %(user)s, agent_id => %(agent)s, digest => %(digest)s,
                share_by_default => %(share)s)""",
            user=user,
            agent=agent,
            digest=auth.digest(token),
            share=share_by_default,
        )
    print(token)
    print(
        f"Token {token_id} of user {user}, agent {agent}. It is not shown again.", file=sys.stderr
    )
    if first:
        print(
            "This is the first token: from its next start on, the server serves bearers of tokens "
            f"only. What local mode saved can be handed over: memphant adopt --to {user}",
            file=sys.stderr,
        )


def token_list(settings: Settings) -> None:
    """Shows the tokens without their secrets."""
    with _owner(settings) as connection:
        rows = connection.execute(
            """select
                t.token_id, t.user_id, t.agent_id, t.share_by_default, t.created_at, t.revoked_at
            from memory.list_tokens() as t"""
        ).fetchall()
    for token_id, user, agent, share, created, revoked in rows:
        state = f"revoked {revoked:%Y-%m-%d %H:%M}" if revoked else "in force"
        shares = ", shares by default" if share else ""
        print(f"{token_id}  {user} / {agent}  made {created:%Y-%m-%d %H:%M}, {state}{shares}")
    if not rows:
        print("No tokens.")


def token_revoke(settings: Settings, token_id: str) -> None:
    """Ends a token at once."""
    try:
        identifier = UUID(token_id)
    except ValueError:
        raise MemphantError(
            f"{token_id[:40]!r} is not the id of a token", "See: memphant token list"
        ) from None
    with _owner(settings) as connection:
        revoked = _scalar(
            connection, "select memory.revoke_token(token_id => %(id)s)", id=identifier
        )
    if not revoked:
        raise MemphantError(f"No token {token_id} is in force", "See: memphant token list")
    print(f"Token {token_id} is revoked.")


def adopt(settings: Settings, from_user: str, to_user: str) -> None:
    """Hands what one user holds to another."""
    with _owner(settings) as connection:
        rows = connection.execute(
            "select a.what, a.rows from memory.adopt(from_user => %s, to_user => %s) as a",
            (from_user, to_user),
        ).fetchall()
    print(", ".join(f"{count} {what}" for what, count in rows), f"now belong to {to_user}.")


def psql(settings: Settings, role: str, arguments: list[str]) -> int:
    """Opens psql in one of the roles dba, server, owner; returns its exit code."""
    with _database(settings) as opened:
        program = str(embedded.binaries() / "psql") if opened.running else shutil.which("psql")
        if program is None:
            raise MemphantError("psql is not installed", "Install the client of Postgres.")
        conninfo = {"dba": opened.dba, "server": opened.server, "owner": opened.owner}[role]
        if conninfo is None:
            conninfo = psycopg.conninfo.make_conninfo(
                opened.owner, options=f"-c role={database.DBA}"
            )
        if arguments[:1] == ["--"]:
            arguments = arguments[1:]
        return subprocess.run([program, conninfo, *arguments], check=False).returncode


async def search(settings: Settings, query: str, *, user: str, agent: str, limit: int) -> None:
    """Embeds and searches, and prints what is found with its scores."""
    services = Services(settings, None)
    try:
        await services.start()
        who = Principal(user, agent)
        embedding, notes = await services.embed_query(query)
        reply = await services.store.search(
            who,
            query,
            embedding,
            memory_types=None,
            tags=None,
            limit=limit,
            cursor=None,
            recent_first=False,
            since=None,
            until=None,
            min_score=None,
            explain=True,
            time_zone=None,
            as_of=None,
        )
    finally:
        await services.stop()
    for memory in reply["memories"]:
        print(f"{memory['score']:.3f}  {memory['occurred_at'][:10]}  {memory['content']}")
        print(f"       {memory['why']}  ({memory['id']})")
    for note in reply["notes"] + notes:
        print(note, file=sys.stderr)


def _scalar(connection: psycopg.Connection, query: str, **given: object) -> object:
    row = connection.execute(query.encode(), given).fetchone()
    return row[0] if row else None
