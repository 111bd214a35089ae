"""The checkpoints of a run for people: what there is, what is whole, what changed, what may go, what is taken out.

It reads files and nothing else. Training writes them and goes on from them with `tfdist.checkpoint`.
"""
