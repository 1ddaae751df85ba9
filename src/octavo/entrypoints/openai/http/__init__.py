"""HTTP itself: keys, error shapes, event streams, bounds of a connection. Knows no body."""
