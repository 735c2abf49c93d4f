"""memphant: long-term memory for AI agents that is nothing but Postgres, served over MCP."""

__version__ = "0.1.0"
