"""Frozen records, enums and errors that every other room shares. Standard library only; `as_json` adds pydantic."""
