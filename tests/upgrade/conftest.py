"""Empty databases, and how an installation is asked for."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from memphant import schema

if TYPE_CHECKING:
    from tests.conftest import TestDatabase

SERVER_ROLE = "memphant_test_server"


@pytest.fixture
def empty(new_database: "Callable[[str | None], TestDatabase]") -> "TestDatabase":
    """A database with pgvector and nothing else."""
    return new_database(None)


@pytest.fixture
def installed(
    template: str, new_database: "Callable[[str | None], TestDatabase]"
) -> "TestDatabase":
    """A database of its own with the schema in it."""
    return new_database(template)


@pytest.fixture(scope="session")
def options(model: tuple[str, int]) -> schema.InstallOptions:
    """What the template was installed with."""
    return schema.InstallOptions(*model, server_role=SERVER_ROLE)
