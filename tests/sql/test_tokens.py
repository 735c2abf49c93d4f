"""Bearer tokens: only digests, who they stand for, revoked at once."""

import hashlib

import psycopg
import pytest
from psycopg import errors as pg
from tests.sql.calling import Caller, call, refused, scalar


def digest(token: str) -> bytes:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).digest()


def create(owner: psycopg.Connection, user: str, token: str, **named: object) -> object:
    """The name of a new token."""
    named = {"user_id": user, "agent_id": "bot", "digest": digest(token), **named}
    return call(owner, "create_token", **named)[0]["create_token"]


def bearer(server: psycopg.Connection, token: str) -> list[tuple[object, ...]]:
    """Whom a token stands for."""
    return [tuple(row.values()) for row in call(server, "authenticate", digest=digest(token))]


def test_a_token_stands_for_one_agent_of_one_user(
    owner: psycopg.Connection, server: psycopg.Connection, user: str
) -> None:
    create(owner, user, f"{user} one")
    create(owner, user, f"{user} two", agent_id="other", share_by_default=True)
    assert bearer(server, f"{user} one") == [(user, "bot", False)]
    assert bearer(server, f"{user} two") == [(user, "other", True)]
    assert bearer(server, f"{user} three") == []
    assert bearer(server, f"{user} on") == []


def test_a_revoked_token_stands_for_nobody_at_once(
    owner: psycopg.Connection, server: psycopg.Connection, user: str
) -> None:
    name = create(owner, user, f"{user} one")
    create(owner, user, f"{user} two")
    assert call(owner, "revoke_token", token_id=name) == [{"revoke_token": True}]
    assert bearer(server, f"{user} one") == []
    assert bearer(server, f"{user} two") == [(user, "bot", False)]
    assert call(owner, "revoke_token", token_id=name) == [{"revoke_token": False}]


def test_revoking_the_last_token_does_not_open_the_server(
    owner: psycopg.Connection, server: psycopg.Connection, user: str
) -> None:
    name = create(owner, user, f"{user} one")
    call(owner, "revoke_token", token_id=name)
    for row in call(owner, "list_tokens"):
        call(owner, "revoke_token", token_id=row["token_id"])
    assert call(server, "tokens_required") == [{"tokens_required": True}]


def test_a_token_creates_its_user(
    owner: psycopg.Connection, server: psycopg.Connection, user: str
) -> None:
    with refused("MP002"):
        Caller(server, user).contents()
    create(owner, user, f"{user} one")
    assert Caller(server, user).contents() == []


def test_no_digest_is_ever_shown(
    owner: psycopg.Connection,
    server: psycopg.Connection,
    dba: psycopg.Connection,
    user: str,
) -> None:
    create(owner, user, f"{user} one")
    for connection in (owner, dba):
        rows = call(connection, "list_tokens")
        assert user in {row["user_id"] for row in rows}
        assert all("digest" not in row for row in rows)
        assert digest(f"{user} one") not in [v for row in rows for v in row.values()]
    for connection in (server, dba):
        with pytest.raises(pg.InsufficientPrivilege):
            connection.execute("select digest from memory.access_tokens")
    assert scalar(owner, "select count(*) from memory.access_tokens") == 0


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("MP005", {"digest": b"short"}),
        ("MP001", {"user_id": ""}),
        ("MP001", {"agent_id": " "}),
        ("MP005", {"agent_id": "*"}),
    ],
)
def test_what_is_no_token_is_refused(
    owner: psycopg.Connection, user: str, code: str, named: dict[str, object]
) -> None:
    with refused(code):
        create(owner, user, f"{user} one", **named)
