"""The console: its pages by themselves, and in a real browser."""
