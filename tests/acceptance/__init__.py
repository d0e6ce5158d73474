"""What memsvc promises whoever decides to use it: a test for each promise, named after it."""
