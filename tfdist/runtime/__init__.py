"""Devices, strategy and collectives: the first floor that imports TensorFlow."""
