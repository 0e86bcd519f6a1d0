"""jaxfocal beside its peers for speed, memory and accuracy: ``python -m benchmarks --help``."""
