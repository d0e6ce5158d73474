"""The console of memsvc: the page where a person sees what is remembered and decides what is kept.

A client of the contract like any other: it knows `memsvc_client` and the generated messages, and nothing of the daemon.
Pages are rendered here; what a browser runs besides (htmx, `app.js`) only spares it a reload.
"""
