"""The pages, a module for each, its routes in its ROUTES. The order of SECTIONS is that of the navigation."""

from memsvc_console.pages import (
    chat,
    context,
    conversations,
    cost,
    login,
    memory,
    notices,
    preferences,
    start,
    takebacks,
    turns,
)
from memsvc_console.view import Section

SECTIONS = (
    Section("memory"),
    Section("conversations"),
    Section("context"),
    Section("chat"),
    Section("cost"),
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
    *chat.ROUTES,
    *cost.ROUTES,
    *notices.ROUTES,
]
