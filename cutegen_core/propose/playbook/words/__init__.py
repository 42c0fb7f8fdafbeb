"""Words in: what a person asks of the menu (`redirects`)."""
