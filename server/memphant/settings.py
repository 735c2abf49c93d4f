"""Settings, from environment variables with the prefix MEMPHANT_."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from memphant.embedded import default_data_dir
from memphant.embedding import EmbeddingSettings

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Settings(BaseSettings):
    """What an operator can set. Tunables of retrieval and limits are rows of memory.settings."""

    model_config = SettingsConfigDict(env_prefix="MEMPHANT_", extra="ignore")

    host: str = Field(
        default="127.0.0.1", description="Address to listen on. Any but loopback needs a token."
    )
    port: int = Field(default=8077, ge=0, le=65535, description="TCP port of the server.")
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        default_factory=list,
        description="Host headers to accept besides loopback, as a JSON list such as "
        '`["memory.example.com"]`; needed behind a proxy and for any other bind.',
    )
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Where the embedded Postgres keeps its data: by default the user's data "
        "directory, as root `/var/lib/memphant`.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="An existing Postgres with pgvector, as the server's ordinary role. "
        "None: the embedded one.",
    )
    install_url: SecretStr | None = Field(
        default=None,
        description="The same database as the owner of the schema, if that is another role; "
        "used by `memphant install`, `token`, `adopt`, `rebuild-index` and `doctor`, never by "
        "`serve`.",
    )
    pool_size: int = Field(
        default=10, ge=1, le=200, description="Most database connections of one server."
    )
    user: str = Field(
        default="local", min_length=1, description="The user in local mode and over stdio."
    )
    agent: str = Field(
        default="default", min_length=1, description="The agent in local mode and over stdio."
    )
    embedding_base_url: str | None = Field(
        default=None,
        description="An OpenAI-compatible endpoint, such as `https://api.openai.com/v1`. None: the "
        "bundled model.",
    )
    embedding_model: str | None = Field(default=None, description="The endpoint's model.")
    embedding_api_key: SecretStr | None = Field(
        default=None, description="The endpoint's key, if any."
    )
    embedding_dimensions: int | None = Field(
        default=None,
        ge=1,
        le=4000,
        description="Dimensions to ask the endpoint for. None: its own.",
    )
    embedding_timeout_s: float = Field(
        default=30,
        gt=0,
        le=600,
        description="Longest wait for one answer of the endpoint, in seconds, further attempts "
        "included.",
    )
    embedding_retries: int = Field(
        default=3,
        ge=0,
        le=10,
        description="Further attempts after a failure of the endpoint, while that time lasts.",
    )

    @field_validator(
        "database_url",
        "install_url",
        "embedding_base_url",
        "embedding_model",
        "embedding_api_key",
        "embedding_dimensions",
        mode="before",
    )
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _json_list(cls, value: object) -> object:
        # read here, because pydantic-settings tells of bad JSON with a traceback
        if isinstance(value, str):
            try:
                return json.loads(value)
            except ValueError:
                raise ValueError('not a JSON list such as ["memory.example.com"]') from None
        return value

    @field_validator("embedding_model")
    @classmethod
    def _endpoint_has_model(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("embedding_base_url"):
            raise ValueError("needed with MEMPHANT_EMBEDDING_BASE_URL: its model")
        return value

    @property
    def loopback(self) -> bool:
        """Whether the server only listens to this machine."""
        return self.host in LOOPBACK

    def embedding(self) -> EmbeddingSettings:
        """The part that the embedder takes."""
        return EmbeddingSettings(
            base_url=self.embedding_base_url,
            model=self.embedding_model,
            api_key=self.embedding_api_key,
            dimensions=self.embedding_dimensions,
            timeout_s=self.embedding_timeout_s,
            retries=self.embedding_retries,
        )


def settings_table() -> str:
    """The settings as the Markdown table that stands in the README."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        if name == "data_dir":
            default = ""
        elif field.default_factory is not None:
            default = "`[]`"
        else:
            default = "" if field.default is None else f"`{field.default}`"
        lines.append(f"| `MEMPHANT_{name.upper()}` | {default} | {field.description} |")
    return "\n".join(lines)
