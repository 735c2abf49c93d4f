"""Settings: from the environment, with clear refusals, and as the README shows them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from memphant.settings import Settings, settings_table

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"MEMPHANT_{name.upper()}", raising=False)


def test_the_readme_shows_the_settings_as_they_are() -> None:
    _, _, rest = README.read_text(encoding="utf-8").partition("<!-- settings -->")
    table, end, _ = rest.partition("<!-- /settings -->")
    assert end, "the README has no table of settings between its markers"
    assert table.strip() == settings_table()


def test_every_setting_has_a_row_that_says_what_it_means() -> None:
    rows = settings_table().splitlines()[2:]
    assert len(rows) == len(Settings.model_fields)
    for row in rows:
        _, variable, _, meaning, _ = row.split(" | ") if row.count(" | ") == 4 else _cells(row)
        assert variable.startswith("`MEMPHANT_")
        assert meaning.strip().endswith((".", ")"))
    assert str(Path.home()) not in settings_table()


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")]


def test_without_variables_it_is_local_and_embedded() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.loopback) == ("127.0.0.1", 8077, True)
    assert settings.database_url is None
    assert settings.embedding().model is None
    assert (settings.user, settings.agent) == ("local", "default")


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMPHANT_HOST", "0.0.0.0")
    monkeypatch.setenv("MEMPHANT_ALLOWED_HOSTS", '["memory.example.com"]')
    monkeypatch.setenv("MEMPHANT_DATABASE_URL", "postgresql://server:secret@db/memories")
    monkeypatch.setenv("MEMPHANT_EMBEDDING_BASE_URL", "http://embed/v1")
    monkeypatch.setenv("MEMPHANT_EMBEDDING_MODEL", "large")
    monkeypatch.setenv("MEMPHANT_EMBEDDING_DIMENSIONS", "1024")
    settings = Settings()
    assert not settings.loopback
    assert settings.allowed_hosts == ["memory.example.com"]
    assert settings.embedding().dimensions == 1024
    assert settings.embedding().base_url == "http://embed/v1"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    "name",
    [
        "DATABASE_URL",
        "INSTALL_URL",
        "EMBEDDING_BASE_URL",
        "EMBEDDING_MODEL",
        "EMBEDDING_API_KEY",
        "EMBEDDING_DIMENSIONS",
    ],
)
def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"MEMPHANT_{name}", "")
    assert getattr(Settings(), name.lower()) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "-1"),
        ("POOL_SIZE", "0"),
        ("ALLOWED_HOSTS", "memory.example.com"),
        ("ALLOWED_HOSTS", '{"a": 1}'),
        ("USER", ""),
        ("AGENT", ""),
        ("EMBEDDING_DIMENSIONS", "4001"),
        ("EMBEDDING_TIMEOUT_S", "0"),
        ("EMBEDDING_TIMEOUT_S", "601"),
        ("EMBEDDING_RETRIES", "11"),
    ],
)
def test_a_bad_value_is_refused_and_its_variable_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"MEMPHANT_{name}", value)
    with pytest.raises(ValidationError) as refused:
        Settings()
    (problem,) = refused.value.errors()
    assert problem["loc"] == (name.lower(),)


def test_an_endpoint_needs_the_name_of_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMPHANT_EMBEDDING_BASE_URL", "http://embed/v1")
    with pytest.raises(ValidationError) as refused:
        Settings()
    (problem,) = refused.value.errors()
    assert problem["loc"] == ("embedding_model",)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_this_machine_is_loopback(host: str, loopback: bool) -> None:
    assert Settings(host=host).loopback is loopback
