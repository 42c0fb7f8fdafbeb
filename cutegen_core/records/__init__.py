"""The words: frozen records, enums and errors. Standard library only; `as_json` adds pydantic."""
