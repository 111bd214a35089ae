"""A worker that sums over its host for ever, as a process: `WORKER WORKERS DESCRIPTOR...`. Says when it has begun."""

import sys

import numpy as np

from tfdist.errors import WorkerFailedError
from tfdist.net.host_links import LinkEnds
from tfdist.runtime.transport.shared_memory.array_exchange import reduce_arrays
from tfdist.runtime.transport.shared_memory.host_mesh import HostMesh

worker, workers, *descriptors = map(int, sys.argv[1:])
mesh = HostMesh(LinkEnds.of(worker, range(workers), descriptors))
arrays = [np.ones(size, np.float32) for size in (7, 300_000, 1000)]
totals = [np.empty_like(array) for array in arrays]
reduce_arrays(mesh, arrays, totals)
print("summed", flush=True)
try:
    while True:
        reduce_arrays(mesh, arrays, totals)
        assert all((total == workers).all() for total in totals)
except WorkerFailedError as error:
    sys.exit(str(error))
