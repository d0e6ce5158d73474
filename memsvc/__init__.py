"""A standalone memory daemon for AI agents, behind gRPC."""
