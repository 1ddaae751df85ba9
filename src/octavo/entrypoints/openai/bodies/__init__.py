"""What bodies have in common: how they are read, bounded and refused. Knows no engine."""
