"""Call language models: settings, keys, budget and the streaming request."""
