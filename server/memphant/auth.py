"""Who calls: bearer tokens over HTTP, one local user otherwise."""

import hashlib
import secrets

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken

from memphant.store import Principal, Store

PREFIX = "mph_"


def new_token() -> str:
    """A new secret: 256 random bits behind a prefix that scanners of secrets can know."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """What is stored of a token: its SHA-256. It has 256 random bits, so it needs no salt."""
    return hashlib.sha256(token.encode()).digest()


class StoreTokenVerifier:
    """Looks every token up, so that a revocation works with the next request."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def verify_token(self, token: str) -> AccessToken | None:
        """The principal of a token as the SDK carries it; None if unknown or revoked."""
        principal = await self._store.authenticate(digest(token))
        if principal is None:
            return None
        return AccessToken(
            token="",
            client_id=principal.agent_id,
            scopes=[],
            subject=principal.user_id,
            claims={"share_by_default": principal.share_by_default},
        )


def bearer() -> Principal:
    """The principal of the current request, in token mode.

    Raises:
        PermissionError: no token was verified for this request; the transport lets none pass.
    """
    token = get_access_token()
    if token is None or token.subject is None:
        raise PermissionError("no verified token")
    return Principal(
        token.subject, token.client_id, bool((token.claims or {}).get("share_by_default"))
    )
