"""The Python client of memsvc."""
