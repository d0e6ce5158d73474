"""The pages, a module for each, its routes in its ROUTES. The order of SECTIONS is that of the navigation."""

from memsvc_console.pages import context, conversations, login, memory, preferences, start, takebacks, turns
from memsvc_console.view import Section

SECTIONS = (
    Section("memory"),
    Section("conversations"),
    Section("context"),
)

ROUTES = [
    *start.ROUTES,
    *login.ROUTES,
    *preferences.ROUTES,
    *takebacks.ROUTES,
    *memory.ROUTES,
    *conversations.ROUTES,
    *turns.ROUTES,
    *context.ROUTES,
]
