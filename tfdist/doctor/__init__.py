"""`tfdist doctor`: what this machine has, what a run here would use, and whether the workers reach one another."""
