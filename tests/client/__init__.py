"""The Python client, against a rude server and against the real daemon."""
