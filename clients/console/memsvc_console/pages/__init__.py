"""The pages, a module for each, its routes in its ROUTES. The order of SECTIONS is that of the navigation."""

from memsvc_console.pages import login, memory, preferences, start, takebacks
from memsvc_console.view import Section

SECTIONS = (Section("memory"),)

ROUTES = [*start.ROUTES, *login.ROUTES, *preferences.ROUTES, *takebacks.ROUTES, *memory.ROUTES]
