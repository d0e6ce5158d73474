"""Everything that can fail a daemon, each fault made to happen: the tests of this house, and what they share."""
