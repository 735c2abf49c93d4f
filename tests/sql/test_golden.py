"""The catalog against text files that a reviewer can read.

MEMPHANT_UPDATE_GOLDEN=1 writes them anew; the difference then belongs to the change.
"""

import os
from pathlib import Path

import psycopg
import pytest
from tests.sql import catalog

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("catalog.txt", catalog.FUNCTIONS),
        ("grants.txt", catalog.GRANTS),
        ("policies.txt", catalog.POLICIES),
    ],
)
def test_the_catalog_is_the_reviewed_one(owner: psycopg.Connection, name: str, query: str) -> None:
    found = "\n".join(catalog.lines(owner, query)) + "\n"
    file = GOLDEN / name
    if os.environ.get("MEMPHANT_UPDATE_GOLDEN") == "1":
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")
