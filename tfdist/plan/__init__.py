"""What a run will do with its data, from sizes alone: no data is read here, and nothing is trained."""
