"""What stands in for the world outside: real servers that do as they are told."""
