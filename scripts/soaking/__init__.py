"""What scripts/soak is made of: files that change, clients of every kind, restarts, and what is watched meanwhile."""
