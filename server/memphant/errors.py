"""Errors of the database, as what a caller reads. The SQLSTATE decides, never the text."""

import psycopg
from psycopg import errors as pg


class MemphantError(Exception):
    """Something the caller can do something about. The message says what, the hint what to do."""

    def __init__(self, message: str, hint: str = "", code: str = "") -> None:
        super().__init__(f"{message}. {hint}".rstrip() if hint else message)
        self.code = code


UNAVAILABLE = "MP100"
"""Code of a database that cannot be reached now; trying again may help."""


# rolled back for sure: shutdown, starting up, an idle session ended, serialisation, deadlock, too
# many connections. Not 57P02: the crash of another backend may strike between a commit and its
# answer.
_ROLLED_BACK = frozenset({"57P01", "57P03", "57P05", "40001", "40P01", "53300"})


def did_not_happen(error: psycopg.Error) -> bool:
    """Whether a failed statement surely left nothing behind, so that it can run again."""
    if error.sqlstate == "XX000":
        # a function that an upgrade replaced between two statements
        return "cache lookup failed" in (error.diag.message_primary or "")
    return error.sqlstate in _ROLLED_BACK


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, and with it the knowledge of what happened."""
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("57P", "08"))
    )


def unknown() -> MemphantError:
    """What to tell about a change that must not be made twice, and whose answer was lost."""
    return MemphantError(
        "The connection to the database was lost: whether the change was made is unknown",
        "Look at the memory before you try again.",
        UNAVAILABLE,
    )


def translate(error: psycopg.Error) -> MemphantError:
    """What to tell the caller about a database error.

    Errors of class MP are raised by the schema with a message and a hint of their own. Of
    everything else only the kind is told: messages of Postgres may quote data.
    """
    code = error.sqlstate or ""
    if code.startswith("MP"):
        return MemphantError(
            error.diag.message_primary or "refused", error.diag.message_hint or "", code
        )
    if isinstance(error, pg.DiskFull):
        return MemphantError("The database's disk is full", "Free space, then try again.", code)
    if isinstance(error, pg.ReadOnlySqlTransaction):
        return MemphantError(
            "The database is read-only", "Connect memphant to the primary server.", code
        )
    if isinstance(error, pg.UndefinedTable | pg.UndefinedFunction | pg.InvalidSchemaName):
        return MemphantError(
            "The schema memory is missing or of another version in this database",
            "Run: memphant install",
            code,
        )
    if isinstance(error, pg.InsufficientPrivilege):
        return MemphantError(
            "The server's role may not do this in the database",
            "Run `memphant install` as the owner; it grants what the role of "
            "MEMPHANT_DATABASE_URL needs.",
            code,
        )
    if isinstance(error, psycopg.DataError):
        return MemphantError(
            "A value is out of the range that Postgres can hold",
            "Check the numbers and times that were passed.",
            code,
        )
    if code in ("40001", "40P01", "55P03"):
        return MemphantError("Others change the same memories just now", "Try again.", code)
    if isinstance(error, pg.QueryCanceled):
        return MemphantError(
            "The database ended the statement: it took too long",
            "Ask for less, or try again.",
            code,
        )
    if code.startswith(("53", "54", "58")):
        return MemphantError(
            f"The database lacks memory, connections or another resource (SQLSTATE {code})",
            "Try again later; the log of Postgres says which.",
            code,
        )
    if isinstance(error, psycopg.OperationalError):
        return MemphantError(
            "The connection to the database was lost",
            "Try again: the same text or idempotency_key is never saved twice.",
            UNAVAILABLE,
        )
    return MemphantError(
        f"The database refused the request (SQLSTATE {code or 'unknown'})", "", code
    )
