"""How quickly the pages answer, in a real browser against a real server and engine."""
